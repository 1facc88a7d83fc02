// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// BenchmarkProcedure measures the overhead of scripts. The scripts are an empty script, a script with ten reads and
// five replacements of 300-byte items, and a script with a new realm for each run.
func BenchmarkProcedure(b *testing.B) {
	var items []string
	for _, id := range strings.Split("abcdefghij", "") {
		items = append(items, `{"id":"`+id+`","owner":"somebody","amount":17,"tags":["x","y"],`+
			`"address":{"city":"Paris","zip":"75001"},`+
			`"text":"`+strings.Repeat("lorem ipsum ", 14)+`"}`)
	}
	for name, body := range map[string]string{
		"empty": `function () { getContext().getResponse().setBody(1) }`,
		"10 reads 5 writes": `function (n) {
			var c = getContext().getCollection(), left = 10, link = c.getAltLink(), sum = 0;
			'abcdefghij'.split('').forEach(function (id, i) {
				c.readDocument(link + '/docs/' + id, function (err, d) {
					if (err) throw err;
					sum += d.amount;
					if (i % 2 == 0) { d.amount -= n; c.replaceDocument(d._self, d, {etag: d._etag}, done) }
					else done();
				});
			});
			function done(err) { if (err) throw err; if (--left == 0) getContext().getResponse().setBody({sum: sum}) }
		}`,
	} {
		b.Run(name, func(b *testing.B) {
			e := slowEngine()
			p, err := e.Program(b.Context(), "bench", body)
			if err != nil {
				b.Fatal(err)
			}
			f := newFake(items...)
			b.ReportAllocs()
			for b.Loop() {
				_, err := e.Procedure(b.Context(), &Call{Program: p, Items: f, SelfLink: self, AltLink: alt,
					Arguments: document.ArrayValue([]document.Value{document.NumberValue(0)})})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("realm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newRealm(1000)
		}
	})
	b.Run("function", func(b *testing.B) {
		e := slowEngine()
		p, _ := e.Program(b.Context(), "bench", `function (x) { return x * 2 }`)
		for b.Loop() {
			if _, err := e.Function(b.Context(), p, []document.Value{document.NumberValue(2)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
