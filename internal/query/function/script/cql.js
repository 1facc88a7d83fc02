// SPDX-License-Identifier: Apache-2.0

// What values of CQL have beside the properties that JavaScript knows: the methods by which functions of Cassandra 4.0
// use them, which are those of Java. The prototypes are frozen, so that nothing is left between calls.
(function () {
    'use strict';
    const { create, freeze, keys, defineProperty, setPrototypeOf } = Object;
    const own = Function.prototype.call.bind(Object.prototype.hasOwnProperty);
    const has = (object, key) => own(object, String(key));
    function put(prototype, methods) {
        for (const name of Object.getOwnPropertyNames(methods)) {
            defineProperty(prototype, name, { value: methods[name], writable: true, enumerable: false });
        }
        return freeze(prototype);
    }
    function outside(index, length) {
        throw new RangeError('Index ' + index + ' out of bounds for length ' + length);
    }
    const lists = create(Array.prototype);
    put(lists, {
        size() { return this.length; },
        isEmpty() { return this.length === 0; },
        get(i) { return i >= 0 && i < this.length ? this[i] : outside(i, this.length); },
        set(i, value) {
            if (!(i >= 0 && i < this.length)) outside(i, this.length);
            const old = this[i];
            this[i] = value;
            return old;
        },
        add(value) { this.push(value); return true; },
        contains(value) { return this.indexOf(value) >= 0; },
    });
    const list = (array) => setPrototypeOf(array, lists);
    const maps = create(Object.prototype);
    put(maps, {
        size() { return keys(this).length; },
        isEmpty() { return keys(this).length === 0; },
        get(key) { return has(this, key) ? this[key] : null; },
        put(key, value) {
            const old = has(this, key) ? this[key] : null;
            defineProperty(this, String(key), { value, writable: true, enumerable: true, configurable: true });
            return old;
        },
        remove(key) {
            const old = has(this, key) ? this[key] : null;
            delete this[key];
            return old;
        },
        containsKey(key) { return has(this, key); },
        keySet() { return list(keys(this)); },
        values() { return list(keys(this).map((key) => this[key])); },
    });
    const records = create(Object.prototype), methods = {
        isNull(field) { return this[field] === null || this[field] === undefined; },
        setToNull(field) { this[field] = null; return this; },
    };
    for (const name of ['Bool', 'Byte', 'Short', 'Int', 'Long', 'Float', 'Double', 'String', 'UUID', 'Timestamp', 'Date',
        'Time', 'Varint', 'Decimal', 'Inet', 'Bytes', 'Object', 'List', 'Set', 'Map', 'TupleValue', 'UDTValue']) {
        methods['get' + name] = function (field) { return this[field]; };
        methods['set' + name] = function (field, value) {
            defineProperty(this, String(field), { value, writable: true, enumerable: true, configurable: true });
            return this;
        };
    }
    put(records, methods);
    return { lists, maps, records };
})()
