// SPDX-License-Identifier: Apache-2.0

package java

import "slices"

func newDict(isSet bool) *dict { return &dict{index: map[any]int{}, isSet: isSet} }

// find returns the index of a key, or -1.
func (d *dict) find(f *frame, key any) int {
	f.step(1)
	if s, ok := key.(string); ok {
		f.step(len(s) / 32)
	}
	if i, ok := d.index[f.equalityKey(key)]; ok {
		return i
	}
	return -1
}

// put sets the value of a key and returns the previous value.
func (d *dict) put(f *frame, key, v any) any {
	f.writable(d.fixed)
	if i := d.find(f, key); i >= 0 {
		if d.isSet {
			return nil
		}
		old := d.values[i]
		d.values[i] = v
		return old
	}
	f.alloc(64)
	d.index[f.equalityKey(key)] = len(d.keys)
	d.keys = append(d.keys, key)
	if !d.isSet {
		d.values = append(d.values, v)
	}
	return nil
}

// remove removes a key. old is the previous value. was reports whether the key existed.
func (d *dict) remove(f *frame, key any) (old any, was bool) {
	f.writable(d.fixed)
	i := d.find(f, key)
	if i < 0 {
		return nil, false
	}
	f.step(len(d.keys) - i)
	delete(d.index, f.equalityKey(key))
	d.keys = slices.Delete(slices.Clone(d.keys), i, i+1)
	if !d.isSet {
		old = d.values[i]
		d.values = slices.Delete(slices.Clone(d.values), i, i+1)
	}
	f.alloc(32 * len(d.keys))
	for j := i; j < len(d.keys); j++ {
		d.index[f.equalityKey(d.keys[j])] = j
	}
	return old, true
}

func (d *dict) clear(f *frame) {
	f.writable(d.fixed)
	d.keys, d.values, d.index = nil, nil, map[any]int{}
}

// writable throws an exception if a collection is immutable.
func (f *frame) writable(fixed bool) {
	if fixed {
		panic(&Thrown{Class: "java.lang.UnsupportedOperationException"})
	}
}
