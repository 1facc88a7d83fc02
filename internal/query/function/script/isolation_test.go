// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestIsolation executes scripts that leave as much state as possible in the only realm of an engine. It then executes
// scripts that search for this state.
func TestIsolation(t *testing.T) {
	e := New(Bounds{Time: slowEngine().bounds.Time, Scripts: 1})
	for _, leave := range []string{
		`x = 1; this.y = 1; globalThis.z = 1; var w = 1`,
		`Array.prototype.x = 1; Object.prototype.x = 1; String.prototype.y = 1; Function.prototype.z = 1`,
		`[].__proto__.x = 1; ({}).__proto__.y = 1; (function* () {}).__proto__.z = 1;
			(async () => {}).__proto__.w = 1`,
		`getContext().x = 1; __.x = 1; getContext().getCollection().y = 1; console.z = 1;
			__.response.w = 1; __.request.x = 1`,
		`JSON.x = 1; Math.y = 1; Array.prototype.map.z = 1; Error.prototype.w = 1; Promise.x = 1;
			RegExp.prototype.y = 1`,
		`JSON = 1; Array = 1; getContext = 1; __ = 1; console = 1; undefined = 1; x = 1`,
		`try { Object.defineProperty(Object.prototype, 'x', {get() { return 1 }}) } catch (e) {}
		 try { Object.setPrototypeOf(Array.prototype, {x: 1}) } catch (e) {}
		 try { Object.prototype.toString = () => 'x' } catch (e) {} delete Array.prototype.map;
		 	delete globalThis.JSON`,
		`__.chain().constructor.x = 1; __.filter.y = 1; try { __.chain().__proto__.z = 1 } catch (e) {}
		 [][Symbol.iterator]().__proto__.x = 1; new Map()[Symbol.iterator]().__proto__.y = 1;
		 	(function () {}).constructor.z = 1`,
		`__.response.setBody(5); console.log('x'); __.readDocument(__.getAltLink() + '/docs/none', () => {})`,
		`new WeakMap().set(Array.prototype, 1); Promise.resolve().then(() => { x = 1 })`,
	} {
		if _, err := call(t, e, nil, "function f() {"+leave+"}"); err != nil {
			t.Errorf("%s: %v", leave, err)
		}
		if len(e.realms) != 1 {
			t.Fatalf("%s: the pool has %d realms", leave, len(e.realms))
		}
		got, err := call(t, e, nil, `function f() {
			var found = [];
			for (var name of ['x', 'y', 'z', 'w']) {
				for (var o of [globalThis, [], {}, '', f, function* () {}, async () => {}, getContext(),
					__, getContext().getCollection(),
					console, __.response, __.request, JSON, Math, Promise, new Error(), /a/, [].map,
						__.chain(), __.chain().constructor, __.filter,
					[][Symbol.iterator](), new Map()[Symbol.iterator](), (function () {}).constructor,
						Object.getPrototypeOf(globalThis)]) {
					if (name in Object(o)) found.push(name);
				}
			}
			if (typeof JSON.stringify !== 'function' || String({}) !== '[object Object]' ||
				[1].map((x) => x + 1)[0] !== 2) found.push('built-ins');
			__.response.setBody(found);
		}`)
		if err != nil || got != "[]" {
			t.Errorf("%s left %s %v", leave, got, err)
		}
	}
}

// TestTogether checks that concurrent scripts do not share state and do not exceed the number of slots.
func TestTogether(t *testing.T) {
	e := slowEngine()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			f := newFake(`{"id":"a","n":0}`)
			for range 5 {
				_, err := call(t, e, f, `function f() { n = 1; __.readDocument(__.getAltLink() + '/docs/a',
					function (err, d) {
					d.n += n; __.replaceDocument(d._self, d) }) }`)
				if err != nil {
					t.Error(err)
				}
			}
			if f.bodies["a"] != `{"id":"a","n":5}` {
				t.Error(i, f.bodies["a"])
			}
		})
	}
	all.Wait()
}

// TestBounds checks the limits on operations, the log, and the result.
func TestBounds(t *testing.T) {
	e := slowEngine()
	f := newFake(`{"id":"a","n":0}`)
	f.most = 3
	got, err := call(t, e, f, `function f() { var n = 0; (function next() {
		if (__.upsertDocument(__.getAltLink(), {id: 'i' + n}, () => { n++;
			next() }) === false) __.response.setBody(n) })() }`)
	if err != nil || got != "3" || len(f.bodies) != 4 {
		t.Errorf("accept: %s %v %v", got, err, f.bodies)
	}
	out, err := callWith(t, e, nil, `function f() { console.log('%s is %d%%, %j', 'a', 5.5, {b: 1}, [2]);
		console.log({c: 1}, 'x'); console.error('%x') }`)
	if err != nil || out.Log != "a is 5%, {\"b\":1} [2]\n{\"c\":1} x\n%x\n" {
		t.Errorf("log: %q %v", out.Log, err)
	}
	out, err = callWith(t, e, nil, `function f() { for (var i = 0; i < 1e5; i++) console.log('line ' + i) }`)
	if lines := strings.Count(out.Log, "\n"); err != nil || lines != 501 || !strings.HasSuffix(out.Log,
		"(the log is full)\n") {
		t.Errorf("full log: %d lines %v", lines, err)
	}
	out, err = callWith(t, e, nil, `function f() { console.log('before'); throw new Error('x') }`)
	if err == nil || out.Log != "before\n" {
		t.Errorf("log of a failure: %q", out.Log)
	}
	_, err = call(t, e, nil, `function f() { __.response.setBody('x'.repeat(250 * 1024)) }`)
	if failure, ok := err.(*Failure); !ok || failure.Status != 413 {
		t.Errorf("large result: %v", err)
	}
}

// TestCache checks that each body is compiled only once and that the size of the cache is limited. The cache must also
// store compilation errors.
func TestCache(t *testing.T) {
	e := New(Bounds{Programs: 2})
	a, _ := e.Program(t.Context(), "a", `() => 1`)
	if b, _ := e.Program(t.Context(), "b", `() => 1`); a != b {
		t.Error("the same body was compiled twice")
	}
	e.Program(t.Context(), "c", `() => 2`)
	if _, err := e.Program(t.Context(), "d", `() =>`); err == nil {
		t.Error("no error")
	}
	if bodies := []string{e.programs.order.Front().Value.(*compiled).body,
		e.programs.order.Back().Value.(*compiled).body}; !slices.Equal(bodies,
		[]string{`() =>`, `() => 2`}) || len(e.programs.of) != 2 {
		t.Error(bodies)
	}
	if b, _ := e.Program(t.Context(), "a", `() => 1`); a == b {
		t.Error("it was kept beyond the bound")
	}
}

// calling is a fake whose queries call a user-defined function.
type calling struct {
	*fake
	engine   *Engine
	function *Program
}

func (c *calling) Query(ctx context.Context, q *Query) (*Page, *Failure) {
	v, err := c.engine.Function(ctx, c.function, []document.Value{document.NumberValue(20)})
	if err != nil {
		return nil, &Failure{Status: 500, Message: err.Error(), Fatal: true}
	}
	return &Page{Documents: [][]byte{v.Append(nil)}}, nil
}

// TestFunctionsWithin checks that procedures whose queries call functions do not deadlock while they wait for slots.
func TestFunctionsWithin(t *testing.T) {
	e := New(Bounds{Time: time.Minute, FunctionTime: time.Minute, Scripts: 1})
	f, err := e.Program(t.Context(), "f", `(x) => x + 1`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Program(t.Context(), "p", `() => { __.queryDocuments(__.getAltLink(), 'SELECT', (err, page) => {
		__.response.setBody(page) }) }`)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			out, err := e.Procedure(t.Context(), &Call{Program: p, Items: &calling{newFake(), e, f}, SelfLink: self,
				AltLink: alt})
			if err != nil || string(out.Body) != "[21]" {
				t.Errorf("%s %v", out.Body, err)
			}
		})
	}
	all.Wait()
}

// request is a context whose memory is reused after the end of the request.
type request struct {
	context.Context
	ended atomic.Bool
}

func (c *request) use() {
	if c.ended.Load() {
		panic("the context of a request that has ended was asked")
	}
}

func (c *request) Value(key any) any { c.use(); return c.Context.Value(key) }
func (c *request) Err() error        { c.use(); return c.Context.Err() }

// TestContextOfRequest checks that a script does not use the context of its request after the response. The test covers
// a script that releases its slot and an abandoned script.
func TestContextOfRequest(t *testing.T) {
	e := New(Bounds{Time: 10 * time.Millisecond, Grace: time.Nanosecond, Scripts: 2})
	for _, body := range []string{`() => 1`, `() => { for (;;) {} }`} {
		p, err := e.Program(t.Context(), "p", body)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			ctx := &request{Context: t.Context()}
			_, _ = e.Procedure(ctx, &Call{Program: p, Items: newFake(), SelfLink: self, AltLink: alt})
			ctx.ended.Store(true)
		}
	}
	eventually.True(t, "all have given back their places", func() bool { return e.slots.Used() == 0 })
}
