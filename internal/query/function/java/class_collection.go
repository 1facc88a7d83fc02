// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"slices"
	"unicode/utf16"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// elements returns the elements of a list or a set, or the keys of a map.
func elements(r any) []any {
	switch r := r.(type) {
	case *list:
		return r.elems
	case *dict:
		return r.keys
	}
	throw("NullPointerException", "Cannot invoke \"java.util.Collection.toArray()\" because the argument is null")
	return nil
}

func (f *frame) listOf(elems []any, fixed bool) value {
	f.alloc(32 + 24*len(elems))
	return ofRef(&list{elems: slices.Clone(elems), fixed: fixed})
}

func (f *frame) setOf(elems []any, fixed bool) value {
	d := newDict(true)
	f.alloc(64)
	for _, e := range elems {
		d.put(f, e, nil)
	}
	d.fixed = fixed
	return ofRef(d)
}

func bounds(l *list, i int64) int {
	if i < 0 || i >= int64(len(l.elems)) {
		throw("IndexOutOfBoundsException", "Index %d out of bounds for length %d", i, len(l.elems))
	}
	return int(i)
}

func (f *frame) find(elems []any, e any) int {
	key := f.equalityKey(e)
	f.step(len(elems))
	sought, isText := e.(string)
	return slices.IndexFunc(elems, func(x any) bool {
		if s, ok := x.(string); ok && isText && len(s) == len(sought) {
			f.step(len(s) / 64)
		}
		return f.equalityKey(x) == key
	})
}

func (f *frame) iterate(elems []any) value {
	f.alloc(64)
	i := 0
	return ofRef(&iterator{next: func() (any, bool) {
		if i >= len(elems) {
			return nil, false
		}
		i++
		return elems[i-1], true
	}})
}

func (it *iterator) peek() bool {
	if !it.more {
		it.head, it.more = it.next()
	}
	return it.more
}

func init() {
	size := func(_ *frame, a []value) value {
		switch r := a[0].r.(type) {
		case *list:
			return ofInt(int64(len(r.elems)))
		case *dict:
			return ofInt(int64(len(r.keys)))
		}
		return ofInt(0)
	}
	for _, class := range []string{"Collection", "Map"} {
		def(class, "size()int", size)
		def(class, "isEmpty()boolean", func(f *frame, a []value) value { return ofBool(size(f, a).n == 0) })
	}
	def("Collection", "contains(Object)boolean", func(f *frame, a []value) value {
		if d, ok := a[0].r.(*dict); ok {
			return ofBool(d.find(f, a[1].r) >= 0)
		}
		return ofBool(f.find(elements(a[0].r), a[1].r) >= 0)
	})
	def("Iterable", "iterator()Iterator<E>", func(f *frame, a []value) value { return f.iterate(elements(a[0].r)) })
	def("Iterator", "hasNext()boolean", func(_ *frame, a []value) value { return ofBool(a[0].r.(*iterator).peek()) })
	def("Iterator", "next()E", func(_ *frame, a []value) value {
		it := a[0].r.(*iterator)
		if !it.peek() {
			panic(&Thrown{Class: "java.util.NoSuchElementException"})
		}
		it.more = false
		return ofRef(it.head)
	})
	def("Collection", "add(E)boolean", func(f *frame, a []value) value {
		switch r := a[0].r.(type) {
		case *list:
			f.writable(r.fixed)
			f.alloc(24)
			r.elems = append(r.elems, a[1].r)
			return ofBool(true)
		case *dict:
			n := len(r.keys)
			r.put(f, a[1].r, nil)
			return ofBool(len(r.keys) > n)
		}
		return ofBool(false)
	})
	def("Collection", "addAll(Collection)boolean", func(f *frame, a []value) value {
		added := slices.Clone(elements(a[1].r))
		f.alloc(24 * len(added))
		switch r := a[0].r.(type) {
		case *list:
			f.writable(r.fixed)
			r.elems = append(r.elems, added...)
			return ofBool(len(added) > 0)
		case *dict:
			n := len(r.keys)
			for _, e := range added {
				r.put(f, e, nil)
			}
			return ofBool(len(r.keys) > n)
		}
		return ofBool(false)
	})
	def("Collection", "containsAll(Collection)boolean", func(f *frame, a []value) value {
		has := f.setOf(elements(a[0].r), false).r.(*dict)
		for _, e := range elements(a[1].r) {
			if has.find(f, e) < 0 {
				return ofBool(false)
			}
		}
		return ofBool(true)
	})
	def("Collection", "remove(Object)boolean", func(f *frame, a []value) value {
		switch r := a[0].r.(type) {
		case *list:
			f.writable(r.fixed)
			i := f.find(r.elems, a[1].r)
			if i >= 0 {
				r.elems = slices.Delete(slices.Clone(r.elems), i, i+1)
				f.alloc(16 * len(r.elems))
			}
			return ofBool(i >= 0)
		case *dict:
			_, was := r.remove(f, a[1].r)
			return ofBool(was)
		}
		return ofBool(false)
	})
	def("Collection", "clear()void", func(f *frame, a []value) value {
		switch r := a[0].r.(type) {
		case *list:
			f.writable(r.fixed)
			r.elems = nil
		case *dict:
			r.clear(f)
		}
		return value{}
	})
	defLists()
	defMaps()
	defHelpers()
}

func defLists() {
	at := func(v value) *list { return v.r.(*list) }
	def("List", "get(int)E", func(_ *frame, a []value) value { return ofRef(at(a[0]).elems[bounds(at(a[0]), a[1].n)]) })
	def("List", "set(int,E)E", func(f *frame, a []value) value {
		l := at(a[0])
		i := bounds(l, a[1].n)
		f.writable(l.fixed)
		old := l.elems[i]
		l.elems[i] = a[2].r
		return ofRef(old)
	})
	def("List", "add(int,E)void", func(f *frame, a []value) value {
		l := at(a[0])
		f.writable(l.fixed)
		if a[1].n < 0 || a[1].n > int64(len(l.elems)) {
			throw("IndexOutOfBoundsException", "Index: %d, Size: %d", a[1].n, len(l.elems))
		}
		f.alloc(24 + 8*len(l.elems))
		l.elems = slices.Insert(l.elems, int(a[1].n), a[2].r)
		return value{}
	})
	def("List", "remove(int)E", func(f *frame, a []value) value {
		l := at(a[0])
		f.writable(l.fixed)
		i := bounds(l, a[1].n)
		old := l.elems[i]
		f.alloc(16 * len(l.elems))
		l.elems = slices.Delete(slices.Clone(l.elems), i, i+1)
		return ofRef(old)
	})
	def("List", "indexOf(Object)int", func(f *frame, a []value) value {
		return ofInt(int64(f.find(at(a[0]).elems, a[1].r)))
	})
	def("List", "subList(int,int)List<E>", func(f *frame, a []value) value {
		l := at(a[0])
		if a[1].n < 0 || a[2].n > int64(len(l.elems)) || a[1].n > a[2].n {
			throw("IndexOutOfBoundsException", "fromIndex: %d, toIndex: %d, size: %d", a[1].n, a[2].n, len(l.elems))
		}
		return f.listOf(l.elems[a[1].n:a[2].n], true)
	})
	of := func(f *frame, a []value) value { return f.listOf(a[0].r.(*list).elems, true) }
	def("List", "static of(Object...)List", of)
	def("Arrays", "static asList(Object...)List", of)
	def("Set", "static of(Object...)Set", func(f *frame, a []value) value {
		return f.setOf(a[0].r.(*list).elems, true)
	})
	for _, class := range []string{"ArrayList", "LinkedList"} {
		def(class, "new()"+class, func(f *frame, _ []value) value { return f.listOf(nil, false) })
		def(class, "new(int)"+class, func(f *frame, _ []value) value { return f.listOf(nil, false) })
		def(class, "new(Collection)"+class, func(f *frame, a []value) value {
			return f.listOf(elements(a[0].r), false)
		})
	}
	for _, class := range []string{"HashSet", "LinkedHashSet"} {
		def(class, "new()"+class, func(f *frame, _ []value) value { return f.setOf(nil, false) })
		def(class, "new(int)"+class, func(f *frame, _ []value) value { return f.setOf(nil, false) })
		def(class, "new(Collection)"+class, func(f *frame, a []value) value { return f.setOf(elements(a[0].r), false) })
	}
}

func defMaps() {
	at := func(v value) *dict { return v.r.(*dict) }
	for _, class := range []string{"HashMap", "LinkedHashMap"} {
		create := func(f *frame, _ []value) value {
			f.alloc(64)
			return ofRef(newDict(false))
		}
		def(class, "new()"+class, create)
		def(class, "new(int)"+class, create)
		def(class, "new(Map)"+class, func(f *frame, a []value) value {
			d := newDict(false)
			from, ok := a[0].r.(*dict)
			if !ok {
				f.throwNull("Cannot invoke \"java.util.Map.size()\"", "the argument")
			}
			for i, k := range from.keys {
				d.put(f, k, from.values[i])
			}
			return ofRef(d)
		})
	}
	def("Map", "get(Object)V", func(f *frame, a []value) value {
		if i := at(a[0]).find(f, a[1].r); i >= 0 {
			return ofRef(at(a[0]).values[i])
		}
		return value{}
	})
	def("Map", "getOrDefault(Object,V)V", func(f *frame, a []value) value {
		if i := at(a[0]).find(f, a[1].r); i >= 0 {
			return ofRef(at(a[0]).values[i])
		}
		return a[2]
	})
	def("Map", "containsKey(Object)boolean", func(f *frame, a []value) value {
		return ofBool(at(a[0]).find(f, a[1].r) >= 0)
	})
	def("Map", "containsValue(Object)boolean", func(f *frame, a []value) value {
		return ofBool(f.find(at(a[0]).values, a[1].r) >= 0)
	})
	def("Map", "put(K,V)V", func(f *frame, a []value) value { return ofRef(at(a[0]).put(f, a[1].r, a[2].r)) })
	def("Map", "putIfAbsent(K,V)V", func(f *frame, a []value) value {
		if i := at(a[0]).find(f, a[1].r); i >= 0 && at(a[0]).values[i] != nil {
			return ofRef(at(a[0]).values[i])
		}
		at(a[0]).put(f, a[1].r, a[2].r)
		return value{}
	})
	def("Map", "putAll(Map)void", func(f *frame, a []value) value {
		from, ok := a[1].r.(*dict)
		if !ok {
			f.throwNull("Cannot invoke \"java.util.Map.size()\"", "the argument")
		}
		for i, k := range from.keys {
			at(a[0]).put(f, k, from.values[i])
		}
		return value{}
	})
	def("Map", "remove(Object)V", func(f *frame, a []value) value {
		old, _ := at(a[0]).remove(f, a[1].r)
		return ofRef(old)
	})
	def("Map", "clear()void", func(f *frame, a []value) value {
		at(a[0]).clear(f)
		return value{}
	})
	def("Map", "keySet()Set<K>", func(f *frame, a []value) value { return f.setOf(at(a[0]).keys, true) })
	def("Map", "values()Collection<V>", func(f *frame, a []value) value { return f.listOf(at(a[0]).values, true) })
	def("Map", "entrySet()Set<Map.Entry<K,V>>", func(f *frame, a []value) value {
		d := at(a[0])
		out := &list{fixed: true}
		f.alloc(64 * len(d.keys))
		for i, k := range d.keys {
			out.elems = append(out.elems, &entry{d, k, d.values[i]})
		}
		return ofRef(out)
	})
	def("Map.Entry", "getKey()K", func(_ *frame, a []value) value { return ofRef(a[0].r.(*entry).key) })
	def("Map.Entry", "getValue()V", func(_ *frame, a []value) value { return ofRef(a[0].r.(*entry).value) })
	def("Map.Entry", "setValue(V)V", func(f *frame, a []value) value {
		e := a[0].r.(*entry)
		e.value = a[1].r
		return ofRef(e.of.put(f, e.key, a[1].r))
	})
}

// order compares two references in the same way as Java's compareTo.
func (f *frame) order(a, b any) int {
	f.step(1)
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return int(f.compare(x, y).n)
		}
	case box:
		if y, ok := b.(box); ok && y.kind == x.kind {
			u, v := value{n: x.n}, value{n: y.n}
			if x.kind == kFloat || x.kind == kDouble {
				t := cqltype.Native(cqltype.Double)
				return t.Compare(t.Kind.FromFloat64(u.float()), t.Kind.FromFloat64(v.float()))
			}
			return int(sign(big64(u.n, v.n)))
		}
	case date:
		if y, ok := b.(date); ok {
			return int(sign(big64(int64(x), int64(y))))
		}
	}
	if a == nil || b == nil {
		f.throwNull("Cannot invoke \"java.lang.Comparable.compareTo(Object)\"", "an element")
	}
	throw("ClassCastException", "class %s cannot be compared to class %s", fullName(classOf(a)), fullName(classOf(b)))
	return 0
}

func big64(a, b int64) int64 {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func defHelpers() {
	def("Collections", "static sort(List)void", func(f *frame, a []value) value {
		l, ok := a[0].r.(*list)
		if !ok {
			f.throwNull("Cannot invoke \"java.util.List.sort(java.util.Comparator)\"", "the argument")
		}
		f.writable(l.fixed)
		slices.SortStableFunc(l.elems, f.order)
		return value{}
	})
	for name, sign := range map[string]int{"max": 1, "min": -1} {
		def("Collections", "static "+name+"(Collection)Object", func(f *frame, a []value) value {
			all := elements(a[0].r)
			if len(all) == 0 {
				panic(&Thrown{Class: "java.util.NoSuchElementException"})
			}
			best := all[0]
			for _, e := range all[1:] {
				if f.order(e, best)*sign > 0 {
					best = e
				}
			}
			return ofRef(best)
		})
	}
	def("Collections", "static reverse(List)void", func(f *frame, a []value) value {
		if l, ok := a[0].r.(*list); ok {
			f.writable(l.fixed)
			f.step(len(l.elems))
			slices.Reverse(l.elems)
		}
		return value{}
	})
	def("Collections", "static emptyList()List", func(f *frame, _ []value) value { return f.listOf(nil, true) })
	def("Collections", "static emptySet()Set", func(f *frame, _ []value) value { return f.setOf(nil, true) })
	def("Collections", "static emptyMap()Map", func(*frame, []value) value {
		d := newDict(false)
		d.fixed = true
		return ofRef(d)
	})
	def("Objects", "static equals(Object,Object)boolean", func(f *frame, a []value) value {
		return ofBool(f.equal(a[0].r, a[1].r))
	})
	def("Objects", "static isNull(Object)boolean", func(_ *frame, a []value) value { return ofBool(a[0].r == nil) })
	def("Objects", "static nonNull(Object)boolean", func(_ *frame, a []value) value { return ofBool(a[0].r != nil) })
	def("Objects", "static toString(Object)String", func(f *frame, a []value) value {
		return f.newString(f.string(a[0].r))
	})
	def("Object", "equals(Object)boolean", func(f *frame, a []value) value { return ofBool(f.equal(a[0].r, a[1].r)) })
	def("Object", "toString()String", func(f *frame, a []value) value { return f.newString(f.string(a[0].r)) })
	def("Object", "hashCode()int", func(f *frame, a []value) value { return f.hash(a[0].r) })
}

// hash returns the hash code of an object. For boxes, texts, and lists of boxes and texts, the result equals Java's
// hash code. For other objects, the result is the hash of the object's text.
func (f *frame) hash(r any) value {
	defer f.enter()()
	h := int32(0)
	switch r := r.(type) {
	case nil:
	case box:
		switch {
		case r.kind == kBoolean && r.n != 0:
			h = 1231
		case r.kind == kBoolean:
			h = 1237
		case r.kind == kLong, r.kind == kDouble:
			h = int32(uint64(r.n) ^ uint64(r.n)>>32)
		case r.kind == kFloat:
			h = int32(math.Float32bits(float32(value{n: r.n}.float())))
		default:
			h = int32(r.n)
		}
	case *list:
		h = 1
		for _, e := range r.elems {
			h = 31*h + int32(f.hash(e).n)
		}
	default:
		s := f.string(r)
		f.step(len(s) / 16)
		for i := range len(s) {
			if s[i] >= 0x80 {
				return f.wideHash(s)
			}
			h = 31*h + int32(s[i])
		}
	}
	return ofInt(int64(h))
}

// wideHash returns the hash of a text with non-ASCII characters.
func (f *frame) wideHash(s string) value {
	h := int32(0)
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return ofInt(int64(h))
}
