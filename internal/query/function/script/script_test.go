// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// TestLanguage checks the JSON responses of procedures that use the features of the language.
func TestLanguage(t *testing.T) {
	e := slowEngine()
	for _, c := range []struct{ name, body, want string }{
		{"named", `function f(a, b) { getContext().getResponse().setBody(a + b) }`, `3`},
		{"anonymous", `function (a, b) { __.response.setBody(a + b); };`, `3`},
		{"arrow", `(a, b) => { __.response.setBody([a, b]) }`, `[1,2]`},
		{"comment before", "// adds\nfunction add(a, b) { __.response.setBody(a + b) } // done", `3`},
		{"helpers", `function main(a) { __.response.setBody(twice(a)) } function twice(x) {
			return 2 * x + k } var k = 5`, `7`},
		{"async", `async function f(a) { const x = await Promise.resolve(a); __.response.setBody(x) }`, `1`},
		{"what is returned is no response", `function f() { return 5 }`, ``},
		{"string", `function f() { __.response.setBody('a"b\u00e9') }`, `"a\"bé"`},
		{"null", `function f() { __.response.setBody(null) }`, `null`},
		{"undefined members", `function f() { __.response.setBody({a: undefined, b: [undefined,
			function(){}], c: NaN, d: new Date(0)}) }`,
			`{"b":[null,null],"c":null,"d":"1970-01-01T00:00:00.000Z"}`},
		{"append", `function f() { __.response.appendBody('a');
			getContext().getResponse().appendValue('Body', 'b'); }`, `"ab"`},
		{"append numbers", `function f() { for (var i = 0; i < 10; i++) getContext().getResponse().appendValue('Body', i)
			}`, `"0123456789"`},
		{"getValue", `function f() { __.response.setValue('Body', 1);
			__.response.setBody([__.response.getValue('body'), __.request.getBody()]) }`,
			`[1,[1,2]]`},
		{"links", `function f() { var c = getContext().getCollection();
			__.response.setBody([c.getSelfLink(), c.getAltLink(), __.getAltLink()]) }`,
			`["` + self + `","` + alt + `","` + alt + `"]`},
		{"implicit globals", `function f() { x = 3; for (i = 0; i < 4; i++) x += i; __.response.setBody([x,
			i, typeof globalThis.x]) }`,
			`[9,4,"number"]`},
		{"classes", `function f() { class A { #x = 1; toString() {
			return 'A' + this.#x } } __.response.setBody('' + new A()) }`, `"A1"`},
		{"own names that objects inherit", `function f() { var e = new Error('x'); e.name = 'Mine'; e.message = 'y';
			var o = {}; o.toString = function () { return 'z' }; __.response.setBody([String(e),
				String(o)]) }`, `["Mine: y","z"]`},
		{"generators", `function f() { function* g() { yield 1; yield 2 } __.response.setBody([...g()]) }`, `[1,2]`},
		{"absent", `function f() { __.response.setBody([typeof eval, typeof require, typeof process,
			typeof setTimeout, typeof Proxy,
			typeof BigInt, typeof Uint8Array, typeof Function, typeof XMLHttpRequest, typeof import_]) }`,
			`["` + strings.Repeat(`undefined","`, 7) + `function","undefined","undefined"]`},
		{"dates and chance", `function f() { __.response.setBody(Date.now() > 1e12 && Math.random() < 1) }`, `true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := call(t, e, nil, c.body, 1, 2)
			if err != nil || got != c.want {
				t.Fatalf("got %s %v, want %s", got, err, c.want)
			}
		})
	}
}

// TestBuiltins checks that the limited built-ins conform to the language standard.
func TestBuiltins(t *testing.T) {
	e := slowEngine()
	for expression, want := range map[string]string{
		`[1, [2, [3, [4]]]].flat(Infinity)`:                                     `[1,2,3,4]`,
		`[1, , 3].concat(4, [5, [6]])`:                                          `[1,null,3,4,5,[6]]`,
		`[3, 1, undefined, 2, 10].sort()`:                                       `[1,10,2,3,null]`,
		`[3, 1, 2, 10].sort((a, b) => a - b)`:                                   `[1,2,3,10]`,
		`[['b', 1], ['a', 1], ['c', 0]].toSorted((x, y) => x[1] - y[1])`:        `[["c",0],["b",1],["a",1]]`,
		`[1, null, [2, [3]], undefined, 'x'].join()`:                            `"1,,2,3,,x"`,
		`String([1, [2]])`:                                                      `"1,2"`,
		`[1, 2, NaN].includes(NaN)`:                                             `true`,
		`[[1, 2, 1].indexOf(1, 1), [1, 2, 1].lastIndexOf(1, 1), [].indexOf(1)]`: `[2,0,-1]`,
		`'a-b-c'.replace('-', '+')`:                                             `"a+b-c"`,
		`'a-b-c'.replaceAll('-', '$&$&')`:                                       `"a--b--c"`,
		`'John Smith'.replace(/(\w+)\s(\w+)/, '$2, $1')`:                        `"Smith, John"`,
		`'x1y2'.replace(/\d/g, (d) => d * 2)`:                                   `"x2y4"`,
		`'aab'.replace(/(?<l>a)/g, '[$<l>]')`:                                   `"[a][a]b"`,
		`'a,b;c'.split(/[,;]/)`:                                                 `["a","b","c"]`,
		`'a1b22'.match(/\d+/g)`:                                                 `["1","22"]`,
		`[...'a1b2'.matchAll(/\d/g)].map((m) => m.index)`:                       `[1,3]`,
		`new RegExp('a+').test('caat') && /x/ instanceof RegExp`:                `true`,
		`'ab'.repeat(2) + 'c'.padStart(3, '*') + 'd'.concat(1, 2)`:              `"abab**cd12"`,
		"String.raw`a\\n${1 + 1}`":                                              `"a\\n2"`,
		`(function () { return this.x + arguments[0] }).bind({x: 1}, 2)()`:      `3`,
		`Math.max.apply(null, [1, 5, 3])`:                                       `5`,
		`Array.from({length: 3}, (_, i) => i * i)`:                              `[0,1,4]`,
		`Array.from(new Set([1, 1, 2]))`:                                        `[1,2]`,
		`[5, 6].map((x, i, a) => x + i + a.length)`:                             `[7,9]`,
		`[1, 2, 3, 4].reduce((a, b) => a + b)`:                                  `10`,
		`[1, 2, 3, 4].splice(1, 2, 'x')`:                                        `[2,3]`,
		`[1, 2, 3].fill(0, 1)`:                                                  `[1,0,0]`,
		`JSON.parse('{"a":[1,{"b":null}],"__proto__":2}').a[1].b`:               `null`,
		`JSON.parse('[1,2]', (k, v) => k === '0' ? undefined : v)[1]`:           `2`,
		`JSON.stringify({a: [1, 'x'], b: undefined}, null,
			1)`: `"{\n \"a\": [\n  1,\n  \"x\"\n ]\n}"`,
		`JSON.stringify({a: 1, b: 2, c: {a: 3, d: 4}}, ['a', 'c'])`:           `"{\"a\":1,\"c\":{\"a\":3}}"`,
		`JSON.stringify({a: 5}, (k, v) => typeof v === 'number' ? v + 1 : v)`: `"{\"a\":6}"`,
		`'z'.localeCompare('a')`: `1`,
		`(() => { try { null.x } catch (e) { return e instanceof TypeError } })()`: `true`,
	} {
		got, err := call(t, e, nil, "function f() { __.response.setBody("+expression+") }")
		if err != nil || got != want {
			t.Errorf("%s: got %s %v, want %s", expression, got, err, want)
		}
	}
}

// TestOperations checks the results, conditions, and errors that the callbacks of collection functions receive.
func TestOperations(t *testing.T) {
	e := slowEngine()
	for _, c := range []struct{ name, body, want string }{
		{"create", `var c = getContext().getCollection();
			var ok = c.createDocument(c.getSelfLink(), {id: 'n', v: 1}, function (err, d, o) {
				__.response.setBody([ok, err, d.v, d._ts, o]) })`,
			`[true,null,1,7,{}]`},
		{"create from text, with an id of its own", `__.createDocument(__.getAltLink(), '{"v":1}', {},
			(err, d) => __.response.setBody(d.id.length))`, `36`},
		{"no id wanted", `__.createDocument(__.getAltLink(), {v: 1}, {disableAutomaticIdGeneration: true},
			(err) => __.response.setBody(err.number))`, `400`},
		{"conflict", `__.createDocument(__.getAltLink(), {id: 'a'}, (err,
			d) => __.response.setBody([err.number, err.message, d]))`,
			`[409,"Resource with specified id already exists: a",null]`},
		{"read by name", `__.readDocument(__.getAltLink() + '/docs/a', (err, d) => __.response.setBody(d.n))`, `1`},
		{"read by resource id", `__.readDocument(__.getSelfLink() + 'docs/r-a/', {}, (err,
			d) => __.response.setBody(d._self))`,
			`"` + self + `docs/r-a/"`},
		{"not modified", `__.readDocument(__.getAltLink() + '/docs/a', {ifNoneMatch: '"1"'}, (err, d,
			o) => __.response.setBody([d, o.notModified]))`,
			`[null,true]`},
		{"not found", `__.readDocument(__.getAltLink() + '/docs/x',
			(err) => __.response.setBody([err.number, err instanceof Error, err.body]))`,
			`[404,true,"Resource not found: x"]`},
		{"replace", `__.readDocument(__.getAltLink() + '/docs/a', (err, d) => { d.n++;
			__.replaceDocument(d._self, d, {etag: d._etag},
			(err, d) => __.response.setBody([d.n, d._etag])) })`, `[2,"\"2\""]`},
		{"precondition", `__.replaceDocument(__.getAltLink() + '/docs/a', {id: 'a'}, {etag: '"9"'},
			(err) => __.response.setBody(err.number))`, `412`},
		{"upsert", `__.upsertDocument(__.getAltLink(), {id: 'a', n: 9},
			() => __.readDocument(__.getAltLink() + '/docs/a',
			(err, d) => __.response.setBody(d.n)))`, `9`},
		{"delete", `__.deleteDocument(__.getAltLink() + '/docs/a', (err) => __.readDocuments(__.getAltLink(),
			(err, list) => __.response.setBody(list.map((d) => d.id))))`, `["b","c"]`},
		{"feed in pages", `var n = []; (function next(k) { __.readDocuments(__.getSelfLink(), {pageSize: 2,
			continuation: k}, (err, list, o) => {
			n.push(list.length); o.continuation ? next(o.continuation) : __.response.setBody(n) }) })()`, `[2,1]`},
		{"query", `__.queryDocuments(__.getSelfLink(), {query: 'above', parameters: [{name: '@n',
			value: 1}]}, {pageSize: 10},
			(err, list, o) => __.response.setBody([list.map((d) => d.id), o.continuation]))`, `[["b","c"],null]`},
		{"wrong query", `__.queryDocuments(__.getSelfLink(), 'SELEC',
			(err) => __.response.setBody(err.number))`, `400`},
		{"order of callbacks", `var s = ''; __.readDocument(__.getAltLink() + '/docs/a', () => { s += 1;
			__.readDocument(__.getAltLink() + '/docs/a', () => {
			s += 3; __.response.setBody(s) }) }); __.readDocument(__.getAltLink() + '/docs/a',
				() => s += 2); s += 0`, `"0123"`},
		{"promises", `(async () => {
			const read = (id) => new Promise((yes, no) => {
				if (!__.readDocument(__.getAltLink() + '/docs/' + id, (e,
					d) => e ? no(e) : yes(d))) no(new Error('full')) });
			const [a, b] = await Promise.all([read('a'), read('b')]);
			let status; try { await read('x') } catch (e) { status = e.number }
			__.response.setBody([a.n + b.n, status]) })()`, `[3,404]`},
		{"other links", `try { __.readDocument('dbs/other/colls/carts/docs/a') } catch (e) {
			__.response.setBody([e.number, e.message]) }`,
			`[400,"\"dbs/other/colls/carts/docs/a\" is not the link of a document in this collection."]`},
		{"attachments", `try { __.createAttachment('a', {}) } catch (e) { __.response.setBody(e.number) }`, `400`},
		{"no object", `try { __.createDocument(__.getSelfLink(), 5) } catch (e) {
			__.response.setBody(e.number) }`, `400`},
		{"caught in a callback", `__.readDocument(__.getAltLink() + '/docs/x', (err) => { try {
			throw err } catch (e) { __.response.setBody(e.number) } })`, `404`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(`{"id":"a","n":1,"tags":["x","y"]}`, `{"id":"b","n":2,"tags":[]}`,
				`{"id":"c","n":3,"tags":["z"]}`)
			f.where = map[string]func(document.Value, *Query) bool{"above": func(v document.Value, q *Query) bool {
				return q.Parameters[0].Name == "@n" &&
					v.Get("n").Float() > document.View(q.Parameters[0].Value).Float()
			}}
			got, err := call(t, e, f, "function f() {"+c.body+"}")
			if err != nil || got != c.want {
				t.Fatalf("got %s %v, want %s", got, err, c.want)
			}
		})
	}
}

// TestQueryFunctions checks filter, map, pluck, flatten, sortBy, unwind, and chains of these functions, with and
// without callbacks.
func TestQueryFunctions(t *testing.T) {
	e := slowEngine()
	f := newFake(`{"id":"a","n":2,"tags":["x","y"]}`, `{"id":"b","n":1,"tags":[]}`, `{"id":"c","n":3,"tags":["z"]}`)
	for body, want := range map[string]string{
		`__.filter((d) => d.n > 1, (err, l) => __.response.setBody(l.length))`: `2`,
		`var r = __.pluck('id'); if (!r.isAccepted) throw new Error('no')`:     `["a","b","c"]`,
		`__.map((d) => ({i: d.id}), {pageSize: 2}, (err, l, o) => __.response.setBody([l,
			o.continuation]))`: `[[{"i":"a"},{"i":"b"}],"b"]`,
		`__.chain().sortBy((d) => d.n).pluck('id').value()`: `["b","a","c"]`,
		`__.chain().sortByDescending((d) => d.n).map((d) => d.n).value((err,
			l) => __.response.setBody(l))`: `[3,2,1]`,
		`__.chain().pluck('tags').flatten().value()`: `["x","y","z"]`,
		`__.chain().unwind((d) => d.tags, (d,
			t) => d.id + t).value()`: `["ax","ay","cz"]`,
		`__.chain().filter(function (d) { return d.n < 3 }).map(function (d) {
			return d.id }).value({pageSize: 1})`: `["a"]`,
		`try { __.filter(5) } catch (e) {
			__.response.setBody(e.message) }`: `"The predicate has to be a function"`,
	} {
		got, err := call(t, e, f, "function f() {"+body+"}")
		if err != nil || got != want {
			t.Errorf("%s: got %s %v, want %s", body, got, err, want)
		}
	}
}

// TestErrors checks that an exception or an unhandled rejection causes an error with the text of the exception. The
// changes of the script must be rolled back.
func TestErrors(t *testing.T) {
	e := slowEngine()
	write := `__.upsertDocument(__.getAltLink(), {id: 'a', n: 2}); `
	for _, c := range []struct {
		body, text string
		sub        int
	}{
		{write + `throw new Error('my text')`, "Error: my text", 0},
		{write + `throw 'plain'`, "plain", 0},
		{write + `throw {code: 7}`, `{"code":7}`, 0},
		{write + `undefinedName()`, "undefinedName is not defined", 0},
		{`__.upsertDocument(__.getAltLink(), {id: 'a', n: 2}, () => { throw new Error('later') })`, "later", 0},
		{write + `__.readDocument(__.getAltLink() + '/docs/none')`, "Resource not found: none", 404},
		{write + `__.readDocument(__.getAltLink() + '/docs/none', (err) => {
			if (err) throw err })`, "Resource not found: none", 404},
		{write + `Promise.reject(new Error('unseen'))`, "unseen", 0},
		{write + `return Promise.reject(new Error('returned'))`, "returned", 0},
		{write + `return (async () => { await null; throw new Error('awaited') })()`, "awaited", 0},
		{write + `throw { toString() { throw 1 } }`, "{}", 0},
		{write + `var e = new Error('x'); Object.defineProperty(e, 'stack', {get() { throw 1 }});
			throw e`, "cannot be read", 0},
		{`getContext().getResponse().nothing()`, "nothing", 0},
	} {
		f := newFake(`{"id":"a","n":1}`)
		_, err := call(t, e, f, "function f() {"+c.body+"}")
		failure, ok := errors.AsType[*Failure](err)
		if !ok || failure.Status != 400 || failure.SubStatus != c.sub || !strings.Contains(failure.Message, c.text) {
			t.Errorf("%s: got %+v %v", c.body, failure, err)
		}
		if f.bodies["a"] != `{"id":"a","n":1}` {
			t.Errorf("%s: %s stayed", c.body, f.bodies["a"])
		}
	}
}

// TestCompileErrors checks which bodies are rejected. The error must contain the name of the script and the reason.
func TestCompileErrors(t *testing.T) {
	e := slowEngine()
	for body, text := range map[string]string{
		`serverScript() { return 1 }`: "cannot be compiled",
		`var x = 5`:                   "does not contain a function",
		`function f() { `:             "cannot be compiled",
		`5`:                           "not a function",
		`function f() { return 1n }`:  "BigInt",
		`function f() { function* g() { yield* [] } }`:             "yield*",
		`function f() { import('x') }`:                             "cannot be compiled",
		`function f() { return /a{1000}b{1000}(?:cc){19}/ }`:       "regular expression",
		`function f() {} }); (function () {`:                       "cannot be compiled",
		`function f() {})})(0); (function(g){return (function(){}`: "cannot be compiled",
		strings.Repeat(" ", BodyBytesMax+1):                        "the limit is",
	} {
		_, err := call(t, e, nil, body)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "script test") {
			t.Errorf("%.60s: %v, want %s", body, err, text)
		}
	}
}
