// SPDX-License-Identifier: Apache-2.0

// The query functions of the collection (filter, map, pluck, flatten, sortBy, unwind, chain .. value): steps over the
// documents of a feed. A call that is not in a chain is a chain of one step.
(function (collection, respond) {
    'use strict';
    const needFunction = (f, what) => {
        if (typeof f !== 'function') throw new TypeError('The ' + what + ' has to be a function');
        return f;
    };
    const flatten = (list, shallow, to) => {
        for (const e of list) {
            if (!Array.isArray(e)) to.push(e);
            else if (shallow) for (const x of e) to.push(x);
            else flatten(e, shallow, to);
        }
        return to;
    };
    const order = (key, sign) => (a, b) => {
        const x = key(a), y = key(b);
        return x < y ? -sign : x > y ? sign : 0;
    };
    const keyOf = (key) => key === undefined ? (x) => x : needFunction(key, 'predicate');
    // whole says that a step needs all documents, and not a page of them.
    const steps = {
        filter: (test) => (needFunction(test, 'predicate'), (list) => list.filter((x) => test(x) === true)),
        map: (change) => (needFunction(change, 'transformation'), (list) => list.map((x) => change(x))),
        pluck: (name) => {
            if (typeof name !== 'string' || name === '') throw new TypeError('The property name must be a string and not empty');
            return (list) => list.filter((x) => x !== null && typeof x === 'object' && x[name] !== undefined).map((x) => x[name]);
        },
        flatten: (shallow) => (list) => flatten(list, shallow === true, []),
        sortBy: (key) => (key = keyOf(key), (list) => list.toSorted(order(key, 1))),
        sortByDescending: (key) => (key = keyOf(key), (list) => list.toSorted(order(key, -1))),
        unwind: (inner, result) => {
            needFunction(inner, 'collection selector');
            if (result !== undefined) needFunction(result, 'result selector');
            return (list) => {
                const to = [];
                for (const x of list) {
                    const elements = inner(x);
                    if (Array.isArray(elements)) for (const e of elements) to.push(result === undefined ? [x, e] : result(x, e));
                }
                return to;
            };
        },
    };
    const optional = { pluck: 1, filter: 1, map: 1, flatten: 1, sortBy: 1, sortByDescending: 1, unwind: 2 };

    // run reads a page, or all pages where the caller asked for no page, and passes what the steps make of it on.
    function run(list, options, callback) {
        const paged = options !== undefined && (options.pageSize > 0 || options.continuation);
        let documents = [];
        const read = (continuation) => collection.readDocuments(collection.getSelfLink(),
            { pageSize: options === undefined ? undefined : options.pageSize, continuation }, (err, page, info) => {
                if (err) {
                    if (callback === undefined) throw err;
                    return callback(err, undefined, info);
                }
                for (const x of page) documents.push(x);
                if (!paged && info.continuation) {
                    if (!read(info.continuation)) throw new Error('The query reads more than a script may');
                    return;
                }
                for (const step of list) documents = step(documents);
                if (callback === undefined) respond(documents); else callback(undefined, documents, info);
            });
        return { isAccepted: read(paged ? options.continuation : undefined) };
    }
    // last takes options and callback off the end of the arguments of a step.
    function last(list, from) {
        let options, callback;
        let own = list.slice(0, from);
        for (const x of list.slice(from)) {
            if (typeof x === 'function') callback = x; else if (x !== undefined) options = x;
        }
        return { own, options, callback };
    }
    function ownArguments(name, list) {
        let n = optional[name];
        if (name === 'flatten' && typeof list[0] !== 'boolean' && list[0] !== undefined) n = 0;
        if (name === 'unwind' && (list.length < 2 || typeof list[1] !== 'function')) n = 1;
        return n;
    }
    class Chain {
        #steps = [];
        value(callback, options) {
            if (typeof callback !== 'function' && options === undefined) [callback, options] = [undefined, callback];
            if (typeof options === 'function') [callback, options] = [options, callback];
            return run(this.#steps, options, callback);
        }
        static {
            for (const name of Object.keys(steps)) {
                Object.defineProperty(Chain.prototype, name, {
                    value: function (...list) {
                        const { own, options, callback } = last(list, ownArguments(name, list));
                        if (callback !== undefined || options !== undefined) {
                            throw new TypeError('In a chain, options and callback can only be given to value');
                        }
                        const chain = this;
                        chain.#steps.push(steps[name](...own));
                        return chain;
                    },
                });
            }
        }
    }
    for (const name of Object.keys(steps)) {
        collection[name] = {
            [name](...list) {
                const { own, options, callback } = last(list, ownArguments(name, list));
                return run([steps[name](...own)], options, callback);
            },
        }[name];
    }
    collection.chain = { chain() { return new Chain(); } }.chain;
    for (const o of [Chain, Chain.prototype]) Object.freeze(o);
    for (const name of Object.getOwnPropertyNames(Chain.prototype)) Object.freeze(Chain.prototype[name]);
})
