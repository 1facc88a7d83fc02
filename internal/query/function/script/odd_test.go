// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"
)

// odd lists scripts that use the object model in unintended ways, and their results. If a result begins with "!", the
// script must fail, and the error must contain the rest of the result.
var odd = [][2]string{
	{`throw undefined`, `!Exception = undefined`},
	{`throw null`, `!Exception = null`},
	{`throw ''`, `!an error without a message`},
	{`throw Symbol('x')`, `!Exception = x`},
	{`throw {get message() { throw 1 }, get stack() { throw 2 }}`, `!an error whose message cannot be read`},
	{`throw Object.create(null)`, `!Exception = {}`},
	{`throw {a: 'x'.repeat(1e6)}`, `!Exception = {"a":"xxx`},
	{`throw {number: {valueOf() { for (;;) {} }}}`, `!{"number":{}}`},
	{`var e = new Error('x'); e.number = 1e300; throw e`, `!Error: x`},
	{`var e = new Error('x'); e.stack = {}; throw e`, `!Error: x`},
	{`'' + {toString() { return {} }, valueOf() { return {} }}`, `!Could not convert an object to primitive`},
	{`'' + Object.create(null)`, `!Could not convert an object`},
	{`__.response.setBody(undefined)`, ``},
	{`__.response.setBody(() => 1)`, ``},
	{`__.response.setBody(NaN)`, `null`},
	{`__.response.setBody('\ud800')`, "\"\ufffd\""},
	{`__.response.setBody([new Map([[1, 2]]), new Date(NaN), new Date(0), Promise.resolve(1), globalThis])`,
		`[{},null,"1970-01-01T00:00:00.000Z",{},{}]`},
	{`__.response.setBody(JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'))`,
		`{"__proto__":{"x":1},"constructor":2}`},
	{`__.response.setBody('x'.repeat(2e6))`, `!has 2000002 bytes; the limit is 245760`},
	{`var keep, n = 0; __.readDocument(__.getAltLink() + '/docs/a', keep = () => {
		__.response.setBody(++n); if (n < 3) keep() })`,
		`3`},
	{`__.createDocument(__.getAltLink(),
		JSON.parse('{"id":"p","__proto__":{"evil":1},"constructor":{"prototype":{"x":1}}}'),
		(e, d) => __.response.setBody([d.evil, ({}).x, ({}).evil, Object.keys(d).slice(0, 3), d.constructor]))`,
		`[null,null,null,["id","__proto__","constructor"],{"prototype":{"x":1}}]`},
	{`__.createDocument(__.getAltLink(), {id: 'ü😀'}, (e, d) => __.response.setBody(d.id))`, `"ü😀"`},
	{`__.createDocument(__.getAltLink(), null)`, `!The document must be an object`},
	{`__.createDocument(__.getAltLink(), '{"id":"z"} x')`, `!unexpected data after the value`},
	{`__.createDocument()`, `!requires 2 arguments, but received 0`},
	{`__.createDocument({toString() { throw 5 }}, {})`, `!Exception = 5`},
	{`__.createDocument(__.getAltLink(), {id: 'q'}, 5)`, `!The options must be an object`},
	{`__.createDocument(__.getAltLink(), {id: 'q'}, {}, {})`, `!The callback must be a function`},
	{`__.createDocument(__.getAltLink(), {id: 'q'}, {get etag() { throw 'option' }})`, `!Exception = option`},
	{`__.createDocument(__.getAltLink(), {id: 'q', get x() {
			__.createDocument(__.getAltLink(), {id: 'inner', y: 2}); return 1 }},
		(e, d) => { __.readDocument(__.getAltLink() + '/docs/inner', (e, i) => __.response.setBody([d.x, i.y])) })`, `[1,2]`},
	{`var o = {id: 'q', toJSON() { return {id: 'q2', n: JSON.stringify({a: [1]})} }};
		__.createDocument(__.getAltLink(), o, (e, d) => __.response.setBody([d.id, d.n]))`, `["q2","{\"a\":[1]}"]`},
	{`__.queryDocuments(__.getAltLink(), {query: 'SELECT 1', parameters: [{name: '@x'}]})`, `!with a name and a value`},
	{`__.queryDocuments(__.getAltLink(), {})`, `!The query must be a string`},
	{`__.readDocument(__.getAltLink() + '/docs/a/../../x', (e) => __.response.setBody(e.number))`, `404`},
	{`__.readDocument('dbs/other/colls/x/docs/a')`, `!is not the link of a document in this collection`},
	{`__.chain().filter.call({}, () => true)`, `!TypeError`},
	{`return new Promise(() => {})`, ``},
	{`return Promise.reject(undefined)`, `!Exception = undefined`},
	{`async function f() { throw null } f()`, `!Exception = null`},
	{`Promise.reject(1).catch(() => {})`, ``},
	{`Promise.all([Promise.reject(new Error('all'))])`, `!Error: all`},
	{`setTimeout(() => {}, 1)`, `!setTimeout is not defined`},
	{`import('x')`, `!cannot be compiled`},
	{`__.readDocument(__.getAltLink() + '/docs/a', (e, d) => { d.__proto__ = {x: 5};
		__.response.setBody([d.x, ({}).x, 'x' in JSON.parse(JSON.stringify(d))]) })`, `[5,null,false]`},
	{`__.readDocument(__.getAltLink() + '/docs/a', (e, d) => { Object.assign(d, JSON.parse('{"__proto__":{"z":1}}'));
		__.response.setBody([d.z, ({}).z]) })`, `[1,null]`},
	{`(function (...a) { __.response.setBody(a.length) })(...new Array(1e5).fill(0))`, `100000`},
	{`try { __.response.setBody = 1 } catch (e) {} delete __.response; __.response.setBody(2)`, `2`},
	{`__.response.setBody(['WebAssembly', 'Atomics', 'WeakRef', 'FinalizationRegistry', 'process', 'ArrayBuffer', 'Proxy',
		'Reflect', 'BigInt', 'eval', 'SharedArrayBuffer', 'queueMicrotask'].filter((x) => x in globalThis))`, `[]`},
	{`var order = []; (async () => { await null; order.push('promise') })();
		__.readDocument(__.getAltLink() + '/docs/a', () => {
			order.push('first'); Promise.resolve().then(() => order.push('then')) });
		__.readDocument(__.getAltLink() + '/docs/a', () => { order.push('second'); __.response.setBody(order) })`,
		`["promise","first","then","second"]`},
}

// TestOdd checks the results of the scripts in odd. All scripts run in the same realm.
func TestOdd(t *testing.T) {
	e := slowEngine()
	for _, test := range odd {
		got, err := callWith(t, e, newFake(`{"id":"a","n":1}`), "function odd() {"+test[0]+"}")
		text, isError := strings.CutPrefix(test[1], "!")
		switch {
		case isError && (err == nil || !strings.Contains(err.Error(), text)):
			t.Errorf("%s\n got %s %v\nwant an error with %s", test[0], got.Body, err, text)
		case !isError && (err != nil || string(got.Body) != text):
			t.Errorf("%s\n got %s %v\nwant %s", test[0], got.Body, err, text)
		}
		if err != nil && (strings.Contains(err.Error(), "goja") || strings.Contains(err.Error(), "0x")) {
			t.Errorf("%s\n tells of the engine: %v", test[0], err)
		}
	}
}
