// SPDX-License-Identifier: Apache-2.0

package script

import (
	"reflect"
	"slices"

	"github.com/dop251/goja"

	"github.com/ilion-db/ilion/internal/model/document"
)

// lazy is an object of an item that a script has read: its members become values of JavaScript when the script looks at
// them, and what it does not look at is written as it was read. Most scripts look at a few members of an item and store
// it again, and making objects was a third of what they took. To a script it is an object like any other, but that it
// cannot be frozen and has plain properties alone. It is a goja.DynamicObject.
type lazy struct {
	realm *realm
	// members are in their order.
	members []member
	// index finds members where there are many; nil where they are few.
	index map[string]int
}

// member is one of a lazy object: the JSON that was read, and what was made of it or set; nil if nobody has looked at
// it.
type member struct {
	name, text string
	value      goja.Value
}

// fewMembers is how many members are looked through one by one.
const fewMembers = 24

var lazyType = reflect.TypeFor[*lazy]()

// lazyOf is the lazy object that o is, nil if it is another one.
func lazyOf(o *goja.Object) *lazy {
	if o.ExportType() != lazyType {
		return nil
	}
	l, _ := o.Export().(*lazy)
	return l
}

// item makes a value of JavaScript of the JSON of an item, or of a part of it.
func (r *realm) item(v document.Value) goja.Value {
	switch v.Kind() {
	case document.Array:
		r.heed()
		var elements []any
		for e := range v.Elements() {
			elements = append(elements, r.item(e))
		}
		return r.vm.NewArray(elements...)
	case document.Object:
		r.heed()
		l := &lazy{realm: r, members: make([]member, 0, fewMembers/2)}
		for name, member := range v.Members() {
			l.put(name, member.Text(), nil)
		}
		return r.vm.NewDynamicObject(l)
	}
	return r.value(v)
}

// find is the place of a member, -1 if there is none.
func (l *lazy) find(name string) int {
	if l.index == nil {
		return slices.IndexFunc(l.members, func(m member) bool { return m.name == name })
	}
	if i, ok := l.index[name]; ok {
		return i
	}
	return -1
}

// put sets a member to a text, or to a value if that is not nil.
func (l *lazy) put(name, text string, v goja.Value) {
	if i := l.find(name); i >= 0 {
		l.members[i].text, l.members[i].value = text, v
		return
	}
	if l.index != nil {
		l.index[name] = len(l.members)
	}
	l.members = append(l.members, member{name, text, v})
	if l.index == nil && len(l.members) > fewMembers {
		l.count()
	}
}

// count makes the index anew.
func (l *lazy) count() {
	l.index = make(map[string]int, 2*len(l.members))
	for i := range l.members {
		l.index[l.members[i].name] = i
	}
}

// Get implements goja.DynamicObject.
func (l *lazy) Get(name string) goja.Value {
	i := l.find(name)
	if i < 0 {
		return nil
	}
	m := &l.members[i]
	if m.value == nil {
		m.value = l.realm.item(document.ViewText(m.text))
	}
	return m.value
}

// Set implements goja.DynamicObject.
func (l *lazy) Set(name string, v goja.Value) bool {
	if v == nil {
		v = goja.Undefined()
	}
	l.put(name, "", v)
	return true
}

// Has implements goja.DynamicObject.
func (l *lazy) Has(name string) bool { return l.find(name) >= 0 }

// Delete implements goja.DynamicObject.
func (l *lazy) Delete(name string) bool {
	i := l.find(name)
	if i < 0 {
		return true
	}
	l.members = slices.Delete(l.members, i, i+1)
	if l.index != nil {
		delete(l.index, name)
		for j := i; j < len(l.members); j++ {
			l.index[l.members[j].name] = j
		}
	}
	return true
}

// Keys implements goja.DynamicObject.
func (l *lazy) Keys() []string {
	keys := make([]string, len(l.members))
	for i := range l.members {
		keys[i] = l.members[i].name
	}
	return keys
}

// lazy writes an object of an item: what the script has not looked at as it was read.
func (w *writer) lazy(o *goja.Object, l *lazy, depth int) {
	empty := true
	// A toJSON of a member may change the object.
	for i := 0; i < len(l.members); i++ {
		m := &l.members[i]
		if m.value != nil {
			w.member(o, m.name, depth, &empty)
			continue
		}
		w.separate(&empty)
		w.out = append(document.AppendString(w.out, m.name), ':')
		w.out = append(w.out, m.text...)
	}
}
