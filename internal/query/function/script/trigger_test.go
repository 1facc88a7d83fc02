// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// TestTriggers checks that a pre-trigger can change the item but cannot access a response. A post-trigger must have
// access to both bodies and to items.
func TestTriggers(t *testing.T) {
	e := slowEngine()
	item := document.View([]byte(`{"id":"a","name":"  x "}`))
	before, err := e.Program(t.Context(), "before", `function () {
		var request = getContext().getRequest(), d = request.getBody();
		d.name = d.name.trim();
		d.id = d.id + '-' + request.getOperationType() + request.getValue('OperationType');
		request.setBody(d);
		try { getContext().getResponse() } catch (e) { console.log(e.number) }
	}`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Before(t.Context(), &Call{Program: before, Items: newFake(), Operation: "Create", Request: item,
		Log: true})
	if err != nil || string(out.Request) != `{"id":"a-CreateCreate","name":"x"}` || out.Log != "400\n" {
		t.Errorf("before: %s %q %v", out.Request, out.Log, err)
	}
	after, err := e.Program(t.Context(), "after", `function () {
		var d = getContext().getResponse().getBody();
		__.upsertDocument(__.getAltLink(), {id: 'meta', last: d.id, asked: __.request.getBody().name},
			(err) => { if (err) throw err });
		__.response.setBody({seen: d.id});
		try { __.request.setBody({}) } catch (e) { console.log(e.number) }
	}`)
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	out, err = e.After(t.Context(), &Call{Program: after, Items: f, SelfLink: self, AltLink: alt, Operation: "Create",
		Request:  item,
		Response: document.View([]byte(`{"id":"a","_ts":5}`)), Log: true})
	if err != nil || string(out.Body) != `{"seen":"a"}` || out.Log != "403\n" ||
		f.bodies["meta"] != `{"id":"meta","last":"a","asked":"  x "}` {
		t.Errorf("after: %s %q %v %v", out.Body, out.Log, err, f.bodies)
	}
}

// TestFunctions checks calls of user-defined functions. The calls cover undefined arguments and results, exceptions,
// and access to items.
func TestFunctions(t *testing.T) {
	e := slowEngine()
	for _, c := range []struct{ body, args, want string }{
		{`function (x, y) { return x * y }`, `[6,7]`, `42`},
		{`function (x) { return x === undefined ? 'none' : x }`, `[]`, `"none"`},
		{`function (x) {}`, `[1]`, `undefined`},
		{`function (x) { return NaN }`, `[1]`, `null`},
		{`function (d) { d.tags.push('n'); return d }`, `[{"tags":[]}]`, `{"tags":["n"]}`},
		{`function (x) { throw new Error('bad ' + x) }`, `[1]`, `error bad 1`},
		{`function (x) { return getContext().getCollection() }`, `[1]`, `error collection is not available`},
		{`function (x) { return __.readDocument('x') }`, `[1]`, `error cannot use items`},
		{`function (x, y, z) { return [x === undefined, y, z, arguments.length] }`, `[2]`, `[true,2,null,2]`},
	} {
		p, err := e.Program(t.Context(), "f", c.body)
		if err != nil {
			t.Fatal(err)
		}
		var args []document.Value
		for a := range document.View([]byte(c.args)).Elements() {
			args = append(args, a)
		}
		if strings.Contains(c.body, "z") {
			args = append([]document.Value{{}}, args...) // an undefined argument, as for a missing path
		}
		v, err := e.Function(t.Context(), p, args)
		got := v.String()
		if err != nil {
			got = "error " + err.Error()
			c.want = strings.TrimPrefix(c.want, "error ")
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: got %s, want %s", c.body, got, c.want)
		}
	}
}
