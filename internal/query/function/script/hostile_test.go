// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// hostile lists scripts that try to exhaust a resource.
var hostile = map[string]string{
	"endless loop":              `for (;;) {}`,
	"endless loop that catches": `for (;;) { try { for (;;) {} } catch (e) {} finally { for (;;) {} } }`,
	"endless recursion":         `function f() { f() } f()`,
	"recursion that catches":    `function f() { try { f() } finally { f() } } f()`,
	"recursion by a getter":     `var o = {get x() { return this.x }}; o.x`,
	"recursion by toString":     `var o = {toString() { return '' + this + this }}; '' + o + o`,
	"recursion by a built-in":   `function f() { [1].map(f) } f()`,
	"recursion by sort":         `function f() { [2, 1].sort(f); return 0 } f()`,
	"recursion by JSON":         `var o = {toJSON() { return JSON.stringify({o: this}) }}; JSON.stringify(o)`,
	"long array":                `new Array(1e9).fill(0)`,
	"array-like":                `Array.prototype.fill.call({length: 1e15}, 1)`,
	"array-like with a getter": `var n = 0; Array.prototype.map.call({get length() {
		return n++ ? 1e15 : 1 }}, String)`,
	"from a length":             `Array.from({length: 1e9})`,
	"apply with a length":       `Math.max.apply(null, {length: 1e9})`,
	"sparse array":              `var a = []; a[4294967294] = 1; a.join('x'); a.sort(); a.reverse()`,
	"repeat":                    `'x'.repeat(1e9)`,
	"pad":                       `'x'.padEnd(1e9)`,
	"doubling":                  `var s = 'x'; for (;;) s += s`,
	"doubling that catches":     `var s = 'x'; for (;;) { try { s = s + s } catch (e) {} }`,
	"doubling by templates":     "var s = 'x'; for (;;) s = `${s}${s}${s}`",
	"doubling by concat":        `var s = 'x'; for (;;) s = s.concat(s, s)`,
	"doubling by join":          `var s = 'x'; for (;;) s = [s, s, s].join(s)`,
	"doubling by replace":       `var s = 'xx'; for (;;) s = s.replace(/x/g, s)`,
	"doubling by $":             `var s = 'xx'; for (;;) s = s.replace(/x/g, "$'$&$` + "`" + `")`,
	"doubling by a function":    `var s = 'xx'; for (;;) s = s.replace(/x/g, () => s)`,
	"doubling by replaceAll":    `var s = 'xx'; for (;;) s = s.replaceAll('', s)`,
	"doubling by raw":           `var s = 'xx'; for (;;) s = String.raw({raw: [s, s, s]}, s, s)`,
	"doubling of arrays":        `var a = [1]; for (;;) a = a.concat(a)`,
	"doubling by spread":        `var a = [1]; for (;;) a = [...a, ...a]`,
	"doubling by flat":          `var a = [1]; for (;;) a = [a, a, a].flat()`,
	"doubling by JSON":          `var a = 'x'; for (;;) a = JSON.stringify([a, a, a])`,
	"objects":                   `var a = []; for (;;) a[a.length] = {a: {}, b: []}`,
	"closures":                  `var f = null; for (;;) { let g = f; f = () => g }`,
	"strings kept":              `var a = [], s = 'x'.repeat(1 << 20); for (var i = 0;; i++) a.push(s + i)`,
	"a large map":               `var m = new Map(); for (var i = 0;; i++) m.set(i, {})`,
	"bind":                      `var f = () => 1; for (;;) f = f.bind(null, 1)`,
	"long prototype chain":      `var o = {}; for (;;) { for (var i = 0; i < 1e4; i++) o = Object.create(o); o.missing }`,
	"deep arrays":               `var a = []; for (;;) { for (var i = 0; i < 1e4; i++) a = [a]; String(a) }`,
	"deep JSON":                 `var a = {}; for (;;) { for (var i = 0; i < 1e4; i++) a = {a}; JSON.stringify(a) }`,
	"deep JSON text":            `for (;;) { try { JSON.parse('['.repeat(1e6)) } catch (e) {} }`,
	"JSON that contains itself": `var a = []; a.push(a); JSON.stringify(a)`,
	"large JSON":                `var a = Array.from({length: 1e5}, () => 'x'.repeat(1000)); JSON.stringify(a)`,
	"backtracking": `/(a+)+$/.test('a'.repeat(40) + 'b'); /(?=a)(a+)+$/.test('a'.repeat(40) +
		'b'); for (;;) {}`,
	"regular expression": `new RegExp('('.repeat(1e5) + ')'.repeat(1e5))`,
	"promises":           `function f() { return Promise.resolve().then(f) } f()`,
	"promise recursion":  `async function f() { await f() } f()`,
	"async loop":         `(async () => { for (;;) await null })()`,
	"thenable":           `var o = {then(yes) { yes(o) }}; Promise.resolve(o)`,
	"generator":          `function* g() { for (;;) yield 1 } for (var x of g()) {}`,
	"generator to array": `function* g() { for (;;) yield 1 } [...g()]`,
	"generator to from":  `function* g() { for (;;) yield 1 } Array.from(g())`,
	"endless iterator":   `Array.from({[Symbol.iterator]() { return {next() { return {} }} }})`,
	"iterator that stays": `var i = {[Symbol.iterator]() { return this }, next() { for (;;) {} },
		return() { for (;;) {} }}; for (var x of i) {}`,
	"sort that never agrees": `var a = Array.from({length: 1e5}, (x, i) => i); for (;;) a.sort(() => 1)`,
	"sort of long strings": `var s = 'x'.repeat(1 << 20), a = []; for (var i = 0; i < 300; i++) a.push(s +
		i); for (;;) a.sort()`,
	"labels and breaks": `a: for (;;) { for (;;) continue a }`,
	"operations": `function f() { __.readDocument(__.getAltLink() + '/docs/a',
		f) } f(); for (;;) __.readDocument(__.getAltLink() + '/docs/a')`,
	"endless operations": `function f() { if (!__.readDocument(__.getAltLink() + '/docs/a',
		f)) throw new Error('stopped') } f()`,
	"log":           `for (;;) console.log('x'.repeat(1e5))`,
	"throwing text": `throw {toString() { for (;;) {} }, toJSON() { for (;;) {} }}`,
	"throwing a getter": `var e = new Error('x'); Object.defineProperty(e, 'stack',
		{get() { for (;;) {} }}); throw e`,
	"result with a getter":      `__.response.setBody({get x() { for (;;) {} }})`,
	"large result":              `__.response.setBody('x'.repeat(1 << 20))`,
	"a result in a result":      `var a = []; a.push(a); __.response.setBody(a)`,
	"code from text":            `(function () {}).constructor('for (;;) {}')()`,
	"code from text, async":     `(async () => {}).constructor('for (;;) {}')()`,
	"code from text, generator": `Object.getPrototypeOf(function* () {}).constructor('for (;;) {}')().next()`,
	"date":                      `for (;;) new Date(NaN).toString()`,
	"class chain":               `var c = class {}; for (;;) { let d = c; c = class extends d {}; }`,
	"destructuring":             `var s = 'x'.repeat(1 << 20); for (;;) { var [...a] = s; var {...b} = a; }`,
	"split":                     `var s = 'x'.repeat(1 << 20), all = []; for (;;) all.push(s.split(''))`,
	"labelled templates":        "function t(s) { return t`${s}` } t``",
	"matches that look to the end": `var s = 'a'.repeat(1 << 18); s.replace(/a(?:.*b)?/g, 'x'); s.match(/a(?:.*b)?/g);
		for (;;) {}`,
	"a wide pattern and a long text": `for (var s = 'a'.repeat(1 << 21);;) new RegExp('(?:' + '.?'.repeat(400) +
		')z').test(s)`,
	"a pattern whose source lies": `var r = new RegExp('(?:' + '.?'.repeat(400) + ')z');
		Object.defineProperty(r, 'source', {value: 'a'}); for (var s = 'a'.repeat(1 << 21);;) r.test(s)`,
	"repetitions in each other": `for (var s = 'a'.repeat(1 << 21);;) /((.?){30}){30}z/.test(s)`,
	"references back":           `for (var s = 'ab'.repeat(1 << 19);;) /(\w+)+z/.test(s)`,
	"looking behind":            `for (var s = 'a'.repeat(1 << 20);;) s.replace(/(?<=a*)b/g, '')`,
	"split at each place":       `for (var s = 'a'.repeat(1 << 20);;) s.split(/(?=.*b|)/)`,
	"all matches":               `for (var s = 'a'.repeat(1 << 20);;) [...s.matchAll(/a(?:.*b)?/g)]`,
	"looking for a long text": `for (var s = 'ā'.repeat(1 << 20), t = 'ā'.repeat(1 << 19) + 'x';;) {
		s.indexOf(t); s.lastIndexOf(t); s.includes(t); s.split(t); s.replaceAll(t, '') }`,
	"looking between characters": `for (var s = 'Ā'.repeat(1 << 20), t = ''.repeat(1 << 19);;) s.indexOf(t)`,
	"escapes of escapes":         `for (var s = '%'.repeat(1 << 20);;) s = encodeURIComponent(s)`,
	"escapes of escapes, old":    `for (var s = '%'.repeat(1 << 20);;) s = escape(s)`,
	"JSON of nothing": `var o = {}; for (var i = 0; i < 1e5; i++) o['k' + i] = undefined;
		JSON.stringify(new Array(1e5).fill(o))`,
	"JSON of functions": `var o = {}; for (var i = 0; i < 1e4; i++) o['k' + i] = () => 1;
		var a = []; for (var i = 0; i < 1e5; i++) a[i] = o; __.response.setBody(a)`,
	"JSON that is deep and long": `for (var t = '['.repeat(490) + '"' + 'x'.repeat(2e6) + '"' +
		']'.repeat(490);;) JSON.parse(t)`,
	"JSON of many members": `for (var t = '{' + Array.from({length: 1e5}, (x, i) => '"k' + i + '":{}').join(',') + '}',
		all = [];;) all.push(JSON.parse(t))`,
	"JSON by branches":       `for (var a = {x: 'x'}, i = 0; i < 400; i++) a = {a: a, b: a}; JSON.stringify(a)`,
	"a result that branches": `for (var a = [], i = 0; i < 400; i++) a = [a, a]; __.response.setBody(a)`,
	"a returned object": `for (var a = {}, i = 0; i < 30; i++) a = {a: a, b: a}; __.response.setBody(a);
		return a`,
	"names in a stack": "var f = new Error('x'), s = 'n'.repeat(1e6), o = {[s](n) { if (n) this[s](n - 1); else " +
		`throw new Error('deep').stack }}; for (var all = [];;) try { o[s](900) } catch (e) { all.push(e) }`,
	"arguments in each other": `function f(...a) { f(...a, ...a) } f(...new Array(1e5).fill(0))`,
	"a set of characters":     `for (var s = 'x'.repeat(1 << 21);;) new Set(s)`,
	"normal forms":            `for (var s = 'é'.repeat(1 << 19);;) s.normalize('NFKD')`,
	"numbers of digits":       `for (var s = '9'.repeat(2e6);;) { parseInt(s); parseFloat(s); Number(s) }`,
	"dates of digits":         `for (var s = '9'.repeat(2e6);;) new Date(s)`,
	"comparing by language":   `for (var s = 'é'.repeat(1 << 20);;) s.localeCompare(s + 'x')`,
	"entries of much": `var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i;
		for (;;) Object.fromEntries(Object.entries(o))`,
	"an item with members": `__.readDocument(__.getAltLink() + '/docs/a', (e, d) => {
		for (var i = 0;; i++) d['k' + i] = d })`,
	"an item in itself": `__.readDocument(__.getAltLink() + '/docs/a', (e, d) => { d.d = d;
		__.replaceDocument(d._self, d) })`,
	"an item without end": `__.readDocument(__.getAltLink() + '/docs/a', (e, d) => { d.toJSON = () => { for (;;) {} };
		__.replaceDocument(d._self, d) })`,
	"appending to a body":    `for (;;) __.response.appendBody('x'.repeat(1 << 16))`,
	"appending to values":    `for (;;) __.response.appendValue('Body', {toString() { return 'x'.repeat(1 << 20) }})`,
	"asynchronous generator": `async function* g() { for (;;) yield 1 } (async () => { for await (var x of g()) {} })()`,
	"waiting for oneself":    `var p; (async () => { for (;;) await (p = p ? p.then(() => 1) : Promise.resolve()) })()`,
	"promises that fan out":  `function f() { Promise.resolve().then(f); Promise.resolve().then(f) } f()`,
	"finally without end":    `function f() { Promise.reject().finally(f) } f()`,
	"callbacks kept": `var kept = []; function cb(e, d) { kept.push(cb, d);
		for (var f of kept) if (typeof f == 'function') f(e, d) }
		__.readDocument(__.getAltLink() + '/docs/a', cb)`,
	"errors of large objects": `var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = 1;
		o.toString = o.valueOf = () => ({});
		for (var all = [];;) try { '' + o } catch (e) { all.push(e) }`,
	"links by objects":   `for (;;) try { __.readDocument({toString() { for (;;) {} }}) } catch (e) {}`,
	"options that loop":  `__.readDocument(__.getAltLink() + '/docs/a', {get ifNoneMatch() { for (;;) {} }})`,
	"options with texts": `__.readDocument(__.getAltLink() + '/docs/a', {ifNoneMatch: {toString() { for (;;) {} }}})`,
	"parameters without end": `__.queryDocuments(__.getAltLink(), {query: 'SELECT 1',
		parameters: {get x() { for (;;) {} }}})`,
	"many parameters": `var p = []; for (var i = 0; i < 1e5; i++) p.push({name: '@p' + i, value: 'x'.repeat(1e4)});
		__.queryDocuments(__.getAltLink(), {query: 'SELECT 1', parameters: p})`,
	"a getter in what is written": `__.createDocument(__.getAltLink(), {id: 'x', get y() { for (;;) {} }})`,
	"members that come while it is written": `var o = {id: 'x'}, n = 0; Object.defineProperty(o, 'y', {enumerable: true,
		get() { for (var i = 0; i < 1000; i++) o['k' + n++] = 'x'.repeat(1e4); return o }});
		__.createDocument(__.getAltLink(), o)`,
	"writing while it is written": `function nest() { __.createDocument(__.getAltLink(), {id: 'x',
		toJSON() { nest(); return {} }}) } nest()`,
	"logging what loops":  `console.log({toString() { for (;;) {} }, toJSON() { for (;;) {} }})`,
	"logging formats":     `for (;;) console.log('%s'.repeat(1e5), {toJSON() { return 'x'.repeat(1e5) }})`,
	"a constructor chain": `function A() { return new A } new A`,
	"getters of classes":  `class A { static get x() { return A.x + A.x } } A.x`,
	"default arguments":   `function f(a = f()) { } f()`,
	"tagged templates":    "function t(s, ...v) { return t`${s}${v}` } t`x`",
	"spread of strings":   `for (var s = 'x'.repeat(1 << 20), all = [];;) all.push([...s])`,
	"entries of strings":  `for (var s = 'x'.repeat(1 << 20), all = [];;) all.push(Object.entries(s))`,
	"sets of sets":        `for (var s = new Set();;) s = new Set([s, ...s, {}, {}])`,
	"a sort that changes": `var a = Array.from({length: 1e4}, Math.random);
		a.sort((x, y) => { a.push(1, 2); return x - y });
		for (;;) a.sort()`,
	"species": `class A extends Array { static get [Symbol.species]() { for (;;) {} } }
		new A(1, 2).map((x) => x); for (;;) {}`,
	"steps of a chain":   `var c = __.chain(); for (;;) c = c.map((x) => x)`,
	"a chain that loops": `__.chain().map((x) => { for (;;) {} }).value()`,
	"chains of chains":   `(function f() { __.chain().map((x) => x).value(f) })(); for (;;) {}`,
	"deep items": `var o = {id: 'x'}, i = o; for (var n = 0; n < 200; n++) i = i.x = {};
		__.createDocument(__.getAltLink(), o)`,
	"deep JSON of items": `var t = '{"id":"x","y":' + '['.repeat(200) + ']'.repeat(200) + '}';
		__.createDocument(__.getAltLink(), t)`,
	"deleting members": `__.readDocument(__.getAltLink() + '/docs/a', (e, d) => { for (var i = 0; i < 2e5; i++) d['k' +
		i] = 1; for (var k in d) delete d[k]; for (;;) {} })`,
}

// TestHostile executes each hostile script with a shorter time limit than usual. The script must fail, change no data,
// and eventually release its slot. The rest of the process must not be affected.
func TestHostile(t *testing.T) {
	// Operations are accepted until the time limit, because a script on a slow machine may take longer to request them.
	e := New(Bounds{Time: 150 * time.Millisecond, AcceptTime: time.Hour, Scripts: 2})
	for name, body := range hostile {
		t.Run(name, func(t *testing.T) {
			f := newFake(`{"id":"a","n":1}`)
			begun := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			peak := watchHeap(ctx)
			out, err := callWith(t, e, f, "function hostile() {"+body+"}")
			took := time.Since(begun)
			if err == nil || f.wrote != 0 {
				t.Errorf("it ended without an error: %.100s", out.Body)
			}
			// Another script gets a slot in the meantime.
			if got, err := call(t, slowEngine(), nil, "() => { __.response.setBody(1) }"); got != "1" {
				t.Errorf("another script: %s %v", got, err)
			}
			for e.slots.Used() > 0 {
				if time.Since(begun) > 2*time.Minute {
					t.Fatal("it has not ended")
				}
				time.Sleep(time.Millisecond)
			}
			cancel()
			t.Logf("answered after %v, ended after %v, heap and stacks at most %d MiB: %.60v",
				took.Round(time.Millisecond),
				time.Since(begun).Round(time.Millisecond), <-peak>>20, err)
		})
	}
	t.Logf("given up on: %d of %d", e.Abandoned(), len(hostile))
}

// watchHeap returns the maximum total size of heap and stacks until ctx ends.
func watchHeap(ctx context.Context) chan uint64 {
	out := make(chan uint64, 1)
	go func() {
		var peak uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
			{Name: "/memory/classes/heap/stacks:bytes"}}
		for ctx.Err() == nil {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64()+sample[1].Value.Uint64())
			time.Sleep(time.Millisecond)
		}
		out <- peak
	}()
	return out
}

// TestHostileSource compiles sources that require much compiler time or a deep stack.
func TestHostileSource(t *testing.T) {
	e := New(Bounds{})
	for _, piece := range []string{"[", "(", "{", "!", "-~", "a=>", "a?1:", "a=", "new ", "{a:", "a**",
		"`${", "1+", "if(a)", "1,",
		"a.b.", "a[", "function f(){", "for(;;)", "try{", "async()=>", "await ", "x:", "a??", "...", "/", "\"", "/*",
		"class a{b=", "var a=1;", "let a=>a;", "function f(){let a;()=>a};", "a+a+", "({a(){}}),", "a.a=",
		"switch(a){case 1:",
		"if(a);else ", "for(let a of b)", "{let a;", "[a]=", "`${a}`+", "/a/,", "label:for(;;)", "try{}catch(e){}",
		"[/)/[", "[')',"} {
		_, err := e.Program(t.Context(), "source", "function f() { return "+strings.Repeat(piece,
			(BodyBytesMax/4-30)/len(piece)))
		if err == nil {
			t.Errorf("%q was compiled", piece)
		}
	}
}

// TestLargeSource compiles valid scripts that require a long compilation time. Every compilation must end. Sources that
// would take too long must be rejected.
func TestLargeSource(t *testing.T) {
	e := New(Bounds{})
	for _, piece := range []string{"1||", "0&&", "null??", "!1||", "1+1||", "true||1&&", "'x'||x||"} {
		_, err := e.Program(t.Context(), "source", "function f(x) { return "+strings.Repeat(piece, 400)+"1 }")
		if err == nil || !strings.Contains(err.Error(), "too many constants") {
			t.Errorf("%q: %v", piece, err)
		}
	}
	deep := strings.Repeat("{let a;", 150)
	for _, body := range []string{
		"return false && x && x && x", "return true || x", "return " + strings.Repeat("x||", 300) + "1",
		"return " + strings.Repeat("'x'+", 300) + "''", deep + strings.Repeat("x;", 10_000) + strings.Repeat("}", 150),
		strings.Repeat("`${x}`;", 5000), strings.Repeat("try{}catch(e){}", 5000),
		strings.Repeat("for(let i=0;;)break;", 5000),
	} {
		if _, err := e.Program(t.Context(), "source", "function f(x) { "+body+" }"); err != nil {
			t.Errorf("%.40s: %v", body, err)
		}
	}
}
