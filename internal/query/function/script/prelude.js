// SPDX-License-Identifier: Apache-2.0

// The prelude makes a realm safe to share between runs, once when the realm is made: it takes away what cannot be
// bounded, puts bounded forms in the place of built-ins whose single call could take all time or memory, adds the
// query functions of the collection, and freezes everything. It is trusted: the guard of operators is not in it.
(function (native, bounds) {
    'use strict';
    const { stringMax, arrayMax, argumentsMax, searchMax } = bounds;
    const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, freeze, getOwnPropertyNames,
        getOwnPropertySymbols } = Object;
    const isArray = Array.isArray, Pattern = RegExp;
    const StringOf = String;
    const bind = Function.prototype.bind, uncurry = bind.bind(Function.prototype.call);
    const apply = uncurry(Function.prototype.apply);
    const slice = uncurry(Array.prototype.slice), push = uncurry(Array.prototype.push);

    // shortMax is how long a text may be for which no pattern takes long.
    const shortMax = 800;
    function tooLong(what, most) {
        return new RangeError(what + ' is longer than ' + most);
    }
    function needString(length) {
        if (!(length <= stringMax)) throw tooLong('The string', stringMax + ' characters');
    }
    function needArray(length) {
        if (!(length <= arrayMax)) throw tooLong('The array', arrayMax + ' elements');
    }
    // lengthOf is the length of what a built-in of arrays is called on. It has to be a property of its own and no
    // accessor, so that the built-in reads the same length.
    function lengthOf(o) {
        if (o === null || o === undefined) throw new TypeError('Cannot convert undefined or null to object');
        if (typeof o === 'string') return o.length;
        const d = getOwnPropertyDescriptor(Object(o), 'length');
        if (d === undefined && !('length' in Object(o))) return 0;
        if (d === undefined || typeof d.value !== 'number') throw new TypeError('The length has to be a plain number');
        needArray(d.value);
        return d.value > 0 ? Math.floor(d.value) : 0;
    }
    function put(object, methods) {
        for (const name of getOwnPropertyNames(methods)) {
            defineProperty(object, name, { value: methods[name], writable: true, enumerable: false, configurable: true });
        }
    }
    // wrap replaces a method by what make returns for the original, uncurried. It keeps its name.
    function wrap(object, names, make) {
        for (const name of names) {
            const original = object[name];
            if (typeof original !== 'function') continue;
            const replacement = make(uncurry(original), original);
            defineProperty(replacement, 'name', { value: original.name, configurable: true });
            defineProperty(replacement, 'length', { value: original.length, configurable: true });
            defineProperty(object, name, { value: replacement, writable: true, enumerable: false, configurable: true });
        }
    }

    // Functions that make code of text.
    const generator = getPrototypeOf(function* () { }), asynchronous = getPrototypeOf(async function () { });
    const noCode = function Function() { throw new TypeError('Scripts cannot make functions from text'); };
    defineProperty(noCode, 'prototype', { value: Function.prototype, writable: false, configurable: false });
    for (const prototype of [Function.prototype, generator, asynchronous]) {
        defineProperty(prototype, 'constructor', { value: noCode, writable: false, enumerable: false, configurable: false });
    }
    native.setGlobal('Function', noCode);
    delete Symbol.for;
    delete Symbol.keyFor;
    delete RegExp.prototype.compile;

    // Functions.
    wrap(Function.prototype, ['apply'], (call) => ({
        apply(self, list) {
            if (list === null || list === undefined) return call(this, self);
            const length = lengthOf(list);
            if (length > argumentsMax) throw tooLong('The list of arguments', argumentsMax);
            return call(this, self, list);
        },
    }).apply);
    wrap(Function.prototype, ['bind'], () => ({
        bind(self, ...first) {
            const target = this;
            if (typeof target !== 'function') throw new TypeError('Bind must be called on a function');
            const bound = {
                f(...rest) {
                    const list = slice(first);
                    for (let i = 0; i < rest.length; i++) list[list.length] = rest[i];
                    return apply(target, self, list);
                },
            }.f;
            defineProperty(bound, 'name', { value: 'bound', configurable: true });
            return bound;
        },
    }).bind);

    // Functions of texts that make them longer.
    for (const name of ['encodeURI', 'encodeURIComponent', 'decodeURI', 'decodeURIComponent', 'escape', 'unescape']) {
        const original = globalThis[name];
        native.setGlobal(name, {
            [name](text) {
                const s = StringOf(text);
                needString(s.length);
                const made = original(s);
                needString(made.length);
                return made;
            },
        }[name]);
    }

    // Strings. needSearch bounds what looking for a text in another may take: the product of their lengths.
    function needSearch(length, sought) {
        if (sought > 1 && length * sought > searchMax) throw tooLong('The text that is looked for', searchMax / length);
    }
    wrap(String.prototype, ['indexOf', 'lastIndexOf', 'includes'], (call) => ({
        search(sought, from) {
            const s = StringOf(this);
            if (!(sought instanceof Pattern)) {
                sought = StringOf(sought);
                needSearch(s.length, sought.length);
            }
            return arguments.length < 2 ? call(s, sought) : call(s, sought, from);
        },
    }).search);
    put(String.prototype, {
        concat(...parts) {
            let s = StringOf(this);
            for (let i = 0; i < parts.length; i++) {
                s += StringOf(parts[i]);
                needString(s.length);
            }
            return s;
        },
    });
    put(String, {
        raw(template, ...values) {
            const raw = template.raw, n = lengthOf(raw);
            let s = '';
            for (let i = 0; i < n; i++) {
                s += StringOf(raw[i]);
                if (i + 1 < n && i < values.length) s += StringOf(values[i]);
                needString(s.length);
            }
            return s;
        },
    });
    wrap(String.prototype, ['repeat'], (call) => ({
        repeat(count) {
            const s = StringOf(this), n = +count;
            if (n > 0) needString(s.length * n);
            return call(s, n);
        },
    }).repeat);
    wrap(String.prototype, ['padStart', 'padEnd'], (call) => ({
        pad(length, filler) {
            const s = StringOf(this), n = +length;
            if (n > 0) needString(n);
            return filler === undefined ? call(s, n) : call(s, n, StringOf(filler));
        },
    }).pad);
    wrap(String.prototype, ['split', 'match', 'matchAll', 'search', 'normalize', 'localeCompare', 'toLocaleUpperCase',
        'toLocaleLowerCase', 'toUpperCase', 'toLowerCase', 'isWellFormed', 'toWellFormed'], (call) => ({
        bounded(a, b) {
            const s = StringOf(this);
            needString(s.length);
            if (typeof a === 'string') needSearch(s.length, a.length);
            return arguments.length === 0 ? call(s) : arguments.length === 1 ? call(s, a) : call(s, a, b);
        },
    }).bounded);
    // replacing bounds what a replacement makes. Where matches could make too much of it, one at each character, it is
    // made by a function, as functions are counted while they are called.
    function replacing(s, by, once) {
        if (typeof by !== 'function') {
            const text = StringOf(by);
            let dollars = 0;
            for (let i = text.indexOf('$'); i >= 0; i = text.indexOf('$', i + 1)) dollars++;
            if ((once ? 1 : s.length + 1) * (text.length + dollars * s.length) <= stringMax) return text;
            by = (...match) => substitute(text, match);
        }
        let made = s.length;
        return (...match) => {
            const part = StringOf(apply(by, undefined, match));
            made += part.length;
            needString(made);
            return part;
        };
    }
    // substitute puts a match into a replacement text: $$, $&, $`, $', $1 and $<name>.
    function substitute(text, match) {
        const named = typeof match[match.length - 1] === 'object' ? match.pop() : undefined;
        const s = match.pop(), at = match.pop();
        let out = '', from = 0;
        for (let i = text.indexOf('$'); i >= 0 && i + 1 < text.length; i = text.indexOf('$', from)) {
            out += text.substring(from, i);
            const c = text[i + 1];
            let n = +text.substr(i + 1, 2), digits = 2;
            if (!/^\d\d/.test(text.substr(i + 1, 2)) || n === 0 || n >= match.length) n = c >= '0' && c <= '9' ? +c : 0, digits = 1;
            from = i + 2;
            if (c === '$') out += '$';
            else if (c === '&') out += match[0];
            else if (c === '`') out += s.substring(0, at);
            else if (c === "'") out += s.substring(at + match[0].length);
            else if (n > 0 && n < match.length) out += match[n] === undefined ? '' : match[n], from = i + 1 + digits;
            else if (c === '<' && named !== undefined && text.indexOf('>', i) > 0) {
                from = text.indexOf('>', i) + 1;
                const part = named[text.substring(i + 2, from - 1)];
                out += part === undefined ? '' : StringOf(part);
            } else out += '$', from = i + 1;
            needString(out.length);
        }
        return out + text.substring(from);
    }
    wrap(String.prototype, ['replace', 'replaceAll'], (call, original) => ({
        replace(pattern, by) {
            const s = StringOf(this);
            needString(s.length);
            if (typeof pattern === 'object' && pattern !== null) return call(s, pattern, by);
            pattern = StringOf(pattern);
            needSearch(s.length, pattern.length);
            return call(s, pattern, replacing(s, by, original.name === 'replace'));
        },
    }).replace);
    wrap(RegExp.prototype, [Symbol.replace], (call) => ({
        replace(s, by) {
            s = StringOf(s);
            needString(s.length);
            return call(this, s, replacing(s, by, !this.global));
        },
    }).replace);
    // A match that cannot be interrupted looks at each character once for each step of its pattern.
    const sourceOf = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'source').get);
    wrap(RegExp.prototype, [Symbol.split, Symbol.match, Symbol.matchAll, Symbol.search, 'exec', 'test'], (call) => ({
        bounded(s, limit) {
            s = StringOf(s);
            needString(s.length);
            if (s.length > shortMax) native.checkMatch(sourceOf(this), s.length);
            return limit === undefined ? call(this, s) : call(this, s, limit);
        },
    }).bounded);
    const Checked = function RegExp(pattern, flags) {
        if (pattern instanceof Pattern) {
            if (new.target === undefined && flags === undefined) return pattern;
            if (flags === undefined) flags = pattern.flags;
            pattern = pattern.source;
        }
        pattern = pattern === undefined ? '' : StringOf(pattern);
        native.checkPattern(pattern);
        return flags === undefined ? new Pattern(pattern) : new Pattern(pattern, StringOf(flags));
    };
    defineProperty(Checked, 'prototype', { value: Pattern.prototype, writable: false, enumerable: false, configurable: false });
    defineProperty(Pattern.prototype, 'constructor', { value: Checked, writable: true, enumerable: false, configurable: true });
    native.setGlobal('RegExp', Checked);

    // Arrays: loops that call nothing of the script are loops of the script, which can be ended.
    wrap(Array.prototype, ['copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex',
        'forEach', 'map', 'reduce', 'reduceRight', 'reverse', 'shift', 'slice', 'some', 'splice', 'unshift', 'toReversed',
        'toSpliced', 'with'], (call) => ({
        bounded(a, b, ...more) {
            lengthOf(this);
            switch (arguments.length) {
                case 0: return call(this);
                case 1: return call(this, a);
                case 2: return call(this, a, b);
            }
            return apply(call, undefined, [this, a, b, ...more]);
        },
    }).bounded);
    // Constructors of sets and maps call these for each element, so that they can be ended.
    wrap(Set.prototype, ['add'], (call) => ({ add(x) { return call(this, x); } }).add);
    wrap(Map.prototype, ['set'], (call) => ({ set(key, x) { return call(this, key, x); } }).set);
    const joinParts = uncurry(Array.prototype.join), joining = [];
    function join(list, separator, text) {
        for (let i = 0; i < joining.length; i++) if (joining[i] === list) return '';
        const n = lengthOf(list), parts = [];
        let length = 0;
        joining[joining.length] = list;
        try {
            for (let i = 0; i < n; i++) {
                const e = list[i];
                const part = e === null || e === undefined ? '' : typeof e === 'string' ? e : text(e);
                length += part.length + separator.length;
                needString(length - separator.length);
                parts[i] = part;
            }
        } finally {
            joining.length--;
        }
        return joinParts(parts, separator);
    }
    function from(start, n) {
        start = Math.trunc(+start) || 0;
        return start < 0 ? Math.max(0, n + start) : start;
    }
    function compare(a, b) {
        a = StringOf(a);
        b = StringOf(b);
        return a < b ? -1 : a > b ? 1 : 0;
    }
    // sorted sorts by merging: stable, and every comparison is a step of the script.
    function sorted(list, order) {
        if (order !== undefined && typeof order !== 'function') throw new TypeError('The comparison has to be a function');
        const by = order === undefined ? compare : order;
        let a = [], undefineds = 0;
        for (let i = 0; i < list.length; i++) {
            if (list[i] === undefined) undefineds++; else a[a.length] = list[i];
        }
        let b = [];
        for (let width = 1; width < a.length; width *= 2) {
            for (let left = 0; left < a.length; left += 2 * width) {
                const middle = Math.min(left + width, a.length), right = Math.min(left + 2 * width, a.length);
                let i = left, j = middle;
                for (let k = left; k < right; k++) {
                    b[k] = i < middle && (j >= right || !(by(a[i], a[j]) > 0)) ? a[i++] : a[j++];
                }
            }
            const c = a;
            a = b;
            b = c;
        }
        a.length = list.length - undefineds;
        for (let i = 0; i < undefineds; i++) a[a.length] = undefined;
        return a;
    }
    function flat(to, list, depth, change, self) {
        const n = lengthOf(list);
        for (let i = 0; i < n; i++) {
            if (!(i in list)) continue;
            const e = change === undefined ? list[i] : apply(change, self, [list[i], i, list]);
            if (depth > 0 && isArray(e)) {
                flat(to, e, depth - 1);
            } else {
                needArray(to.length + 1);
                to[to.length] = e;
            }
        }
        return to;
    }
    put(Array.prototype, {
        join(separator) { return join(this, separator === undefined ? ',' : StringOf(separator), StringOf); },
        toString() { return isArray(this) ? join(this, ',', StringOf) : Object.prototype.toString.call(this); },
        toLocaleString() { return join(this, ',', (e) => StringOf(e.toLocaleString())); },
        concat(...parts) {
            const to = [];
            const add = (e) => {
                const spread = e !== null && typeof e === 'object' ? e[Symbol.isConcatSpreadable] : false;
                if (spread === undefined ? !isArray(e) : !spread) {
                    to[to.length] = e;
                    return;
                }
                const n = lengthOf(e), at = to.length;
                needArray(at + n);
                for (let i = 0; i < n; i++) if (i in e) to[at + i] = e[i];
                to.length = at + n;
            };
            add(this);
            for (let i = 0; i < parts.length; i++) add(parts[i]);
            return to;
        },
        flat(depth) { return flat([], this, depth === undefined ? 1 : +depth); },
        flatMap(change, self) {
            if (typeof change !== 'function') throw new TypeError('flatMap needs a function');
            return flat([], this, 1, change, self);
        },
        includes(x, start) {
            const n = lengthOf(this);
            for (let i = from(start, n); i < n; i++) {
                if (this[i] === x || x !== x && this[i] !== this[i]) return true;
            }
            return false;
        },
        indexOf(x, start) {
            const n = lengthOf(this);
            for (let i = from(start, n); i < n; i++) if (this[i] === x && i in this) return i;
            return -1;
        },
        lastIndexOf(x, start) {
            const n = lengthOf(this);
            let i = arguments.length > 1 ? Math.trunc(+start) || 0 : n - 1;
            for (i = i < 0 ? n + i : Math.min(i, n - 1); i >= 0; i--) if (this[i] === x && i in this) return i;
            return -1;
        },
        sort(order) {
            const n = lengthOf(this), present = [];
            for (let i = 0; i < n; i++) if (i in this) present[present.length] = this[i];
            const a = sorted(present, order);
            for (let i = 0; i < n; i++) if (i < a.length) this[i] = a[i]; else delete this[i];
            return this;
        },
        toSorted(order) {
            lengthOf(this);
            return sorted(slice(this), order);
        },
    });
    wrap(Array, ['from'], (call) => ({
        from(items, ...more) {
            if (items !== null && items !== undefined && typeof items[Symbol.iterator] !== 'function') lengthOf(items);
            if (isArray(items)) lengthOf(items);
            return apply(call, undefined, [this, items, ...more]);
        },
    }).from);
    put(JSON, { parse: native.parse, stringify: native.stringify });

    native.query(native.collection, native.response);

    // An assignment to a property that an object inherits from a frozen one would be lost. Properties that scripts do
    // assign to on objects of their own are therefore accessors.
    function assignable(prototype, names) {
        for (const name of names) {
            const d = getOwnPropertyDescriptor(prototype, name);
            if (d === undefined || !('value' in d)) continue;
            const value = d.value;
            defineProperty(prototype, name, {
                get() { return value; },
                set(x) {
                    if (this === prototype) throw new TypeError('Built-in objects cannot be changed');
                    defineProperty(this, name, { value: x, writable: true, enumerable: true, configurable: true });
                },
                enumerable: false, configurable: false,
            });
        }
    }
    const errors = [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError];
    assignable(Object.prototype, ['toString', 'toLocaleString', 'valueOf', 'constructor', 'hasOwnProperty']);
    for (const e of errors) assignable(e.prototype, ['name', 'message', 'toString', 'constructor']);

    const seen = new Set();
    const pending = [generator, asynchronous, getPrototypeOf(generator.prototype), getPrototypeOf([][Symbol.iterator]()),
        getPrototypeOf(new Map()[Symbol.iterator]()), getPrototypeOf(new Set()[Symbol.iterator]()),
        getPrototypeOf(''[Symbol.iterator]()), getPrototypeOf('a'.matchAll(/a/g)), noCode];
    for (const root of native.roots()) push(pending, root);
    while (pending.length > 0) {
        const o = pending.pop();
        if (o === null || typeof o !== 'object' && typeof o !== 'function' || seen.has(o)) continue;
        seen.add(o);
        freeze(o);
        pending.push(getPrototypeOf(o));
        for (const key of [...getOwnPropertyNames(o), ...getOwnPropertySymbols(o)]) {
            const d = getOwnPropertyDescriptor(o, key);
            if (d !== undefined) pending.push(d.value, d.get, d.set);
        }
    }
})
