// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"
)

// TestItemsAreObjects checks that an item behaves like the object that JSON.parse creates from the same text. Each step
// must have the same result for both objects. Members that were not accessed must be stored unchanged, including
// numbers that JavaScript cannot represent. Items with many members must behave in the same way.
func TestItemsAreObjects(t *testing.T) {
	const small = `{"id":"a","n":1,"o":{"x":[1,{"y":2}],"z":null},"toString":"own","__proto__":5,"7":"seven",` +
		`"é":"\u00e9"}`
	many := strings.Replace(small, `"n":1`, `"n":1,"m":0`+manyMembers(60), 1)
	steps := []string{
		`d.n`, `d.missing`,
		`d.o.x[1].y`, `d.o.x[1].y = 3`, `d.o.x.push({w: d.n})`, `d.o.x.length`, `'n' in d`, `'q' in d`,
		`d.q = {r: 1}`, `d.q.r++`, `delete d.n`, `delete d.none`, `'n' in d`, `d.n = 'again'`, `d.toString`, `d[7]`,
		`d['é']`, `d.hasOwnProperty('o')`, `d.hasOwnProperty('valueOf')`, `d instanceof Object`, `typeof d`,
		`Array.isArray(d.o.x)`,
		`Object.keys(d).sort()`, `Object.keys(d.o)`, `Object.entries(d.o)`, `Object.assign({}, d).o`, `({...d}).id`,
		`var {id, ...rest} = d; id + Object.keys(rest).length`, `var k = []; for (var x in d) k.push(x); k.sort()`,
		`Object.getOwnPropertyDescriptor(d, 'id')`, `Object.getPrototypeOf(d) === Object.prototype`,
		`d.o.z === null`,
		`d.u = undefined`, `JSON.stringify(d.o, null, 2)`, `JSON.stringify(d.o, ['x', 'y'])`,
		`JSON.stringify(d.o, (k, v) => typeof v === 'number' ? v + 1 : v)`, `d.o.x.map(JSON.stringify)`,
		`d.constructor === Object`,
		`d.o.toJSON = () => 'j'`, `Object.is(d.o, d.o)`, `d === d.self`, `d.o = d.o.x`,
		`Object.prototype.toString.call(d)`,
	}
	for _, item := range []string{small, many} {
		body := `() => { __.readDocument(__.getAltLink() + '/docs/a', (err, read) => {
			if (err) throw err;
			for (var k of ['_rid', '_self', '_etag', '_attachments', '_ts']) delete read[k];
			var text = JSON.stringify(read), made = JSON.parse(text), out = [];
			function sorted(o) { return o === null || typeof o !== 'object' || Array.isArray(o) ? o :
				Object.fromEntries(Object.entries(o).sort((a, b) => a[0] < b[0] ? -1 : 1)) }
			var steps = [` + "\n"
		for _, s := range steps {
			last := s[strings.LastIndex(s, ";")+1:]
			body += "(d) => {" + s[:len(s)-len(last)] + " return " + strings.TrimSpace(last) + " },\n"
		}
		body += `];
			steps.forEach((f, i) => {
				var a = JSON.stringify(sorted(f(read))), b = JSON.stringify(sorted(f(made)));
				if (a !== b) out.push(i + ': ' + a + ' and ' + b);
				a = JSON.stringify(sorted(read)); b = JSON.stringify(sorted(made));
				if (a !== b) out.push(i + ' leaves ' + a + ' and ' + b);
			});
			__.response.setBody(out);
		}) }`
		if got, err := call(t, slowEngine(), newFake(item), body); err != nil || got != "[]" {
			t.Errorf("%s %v", got, err)
		}
	}

	f := newFake(`{ "id":"a", "big":12345678901234567890,"exact":1.50,"o":{"deep":[1.0]},"n":1}`)
	_, err := call(t, slowEngine(), f, `() => { __.readDocument(__.getAltLink() + '/docs/a', (err, d) => {
		d.n++; d.o.more = d.o.deep.length; __.replaceDocument(d._self, d) }) }`)
	if want := `{"id":"a","big":12345678901234567890,"exact":1.50,"o":{"deep":[1],"more":1},"n":2}`; err != nil ||
		f.bodies["a"] != want {
		t.Errorf("it was stored as %s, want %s: %v", f.bodies["a"], want, err)
	}
}

// TestFirstLook checks that the value of a member does not depend on the order of accesses. Repeated accesses to an
// object member must return the same object.
func TestFirstLook(t *testing.T) {
	item := `{"id":"a","n":1,"s":"x\u00e9","t":true,"z":null,"o":{"n":2},"l":[1],` +
		`"__proto__":5,"toString":"own","7":"seven"}`
	for _, expr := range []string{"d.n", "d.s", "d.t", "d.z", "d.o.n", "d.l", "d['__proto__']", "d.toString", "d[7]",
		"d.missing", "d.valueOf === Object.prototype.valueOf", "d._ts", "d._self", "d._etag", "d._rid",
		"d._attachments", "d.o === d.o", "(d.l.push(2), d.l)", "(d.n++, d.n++, d.n)", "(delete d.n, d.n)",
		"(d._etag = 1, d._etag)", "(delete d._ts, '_ts' in d)", "d.n + d.n + d.n + d.n + d.n + d.n"} {
		body := `() => { var link = __.getAltLink() + '/docs/a';
			__.readDocument(link, (err, d) => { __.readDocument(link, (err, e) => {
				var first = JSON.stringify([` + expr + `]);
				d = e; Object.keys(d);
				__.response.setBody(first === JSON.stringify([` + expr + `]) ? 'same' : first);
			}) }) }`
		if got, err := call(t, slowEngine(), newFake(item), body); err != nil || got != `"same"` {
			t.Errorf("%s: %s %v", expr, got, err)
		}
	}
}

// manyMembers returns the JSON text of n members.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"m` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":[` + strings.Repeat("1,", i) + `0]`)
	}
	return b.String()
}
