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
	// of is the item that the object is made of, nil if it is a part of one or a result of a query. Then text is its
	// JSON. looked says that the members are there.
	of     Item
	text   string
	looked bool
	// glances is how often a script has looked at a member before that.
	glances int
	// system is what the database knows of the item, nil until a script asks.
	system *document.System
	// members are in their order.
	members []member
	// index finds members where there are many; nil where they are few.
	index map[string]int
}

// member is one of a lazy object: the JSON that was read, and what was made of it or set; nil if nobody has looked at
// it. The text of a system member of an item is empty.
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

// item makes an object of an item.
func (r *realm) item(i Item) goja.Value { return r.vm.NewDynamicObject(&lazy{realm: r, of: i}) }

// part makes a value of JavaScript of a part of an item, or of a result of a query.
func (r *realm) part(v document.Value) goja.Value {
	switch v.Kind() {
	case document.Array:
		r.heed()
		var elements []any
		for e := range v.Elements() {
			elements = append(elements, r.part(e))
		}
		return r.vm.NewArray(elements...)
	case document.Object:
		return r.vm.NewDynamicObject(&lazy{realm: r, text: v.Text()})
	}
	return r.value(v)
}

// look finds the members of an object that nobody has looked at.
func (l *lazy) look() {
	if l.looked {
		return
	}
	l.realm.heed()
	l.looked = true
	v := l.json()
	l.members = make([]member, 0, fewMembers/2)
	for name, m := range v.Members() { // names are different: the text was parsed once
		l.members = append(l.members, member{name: name, text: m.Text()})
	}
	if l.of != nil {
		for _, name := range document.SystemNames {
			l.members = append(l.members, member{name: name})
		}
	}
	if len(l.members) > fewMembers {
		l.count()
	}
}

// json is what the object is made of, but for the system members of an item.
func (l *lazy) json() document.Value {
	if l.of != nil {
		return document.View(l.of.JSON())
	}
	return document.ViewText(l.text)
}

// glancesMax is how often a text is looked through for one member before all of them are found.
const glancesMax = 4

// glance makes the value of a member without finding the others; nil where that does not do: what is no object has no
// identity that it had to keep.
func (l *lazy) glance(name string) goja.Value {
	if l.looked || l.glances == glancesMax {
		return nil
	}
	l.glances++
	if l.of != nil && document.IsSystem(name) {
		return nil
	}
	if v := l.json().Get(name); v.IsDefined() && v.Kind() < document.Array {
		return l.realm.value(v)
	}
	return nil
}

// made is what is made of a member when a script looks at it.
func (l *lazy) made(m *member) goja.Value {
	if m.text != "" {
		return l.realm.part(document.ViewText(m.text))
	}
	if l.system == nil {
		run := l.realm.run
		if failure := run.use(func(Items) *Failure {
			system := l.of.System()
			l.system = &system
			return nil
		}); failure != nil {
			run.stop(failure)
			l.realm.heed()
		}
	}
	return l.realm.value(l.system.Member(m.name))
}

// find is the place of a member, -1 if there is none.
func (l *lazy) find(name string) int {
	l.look()
	if l.index == nil {
		return slices.IndexFunc(l.members, func(m member) bool { return m.name == name })
	}
	if i, ok := l.index[name]; ok {
		return i
	}
	return -1
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
	if v := l.glance(name); v != nil {
		return v
	}
	i := l.find(name)
	if i < 0 {
		return nil
	}
	m := &l.members[i]
	if m.value == nil {
		m.value = l.made(m)
	}
	return m.value
}

// Set implements goja.DynamicObject.
func (l *lazy) Set(name string, v goja.Value) bool {
	if v == nil {
		v = goja.Undefined()
	}
	if i := l.find(name); i >= 0 {
		l.members[i].value = v
		return true
	}
	if l.index != nil {
		l.index[name] = len(l.members)
	}
	l.members = append(l.members, member{name: name, value: v})
	if l.index == nil && len(l.members) > fewMembers {
		l.count()
	}
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
	l.look()
	keys := make([]string, len(l.members))
	for i := range l.members {
		keys[i] = l.members[i].name
	}
	return keys
}

// lazy writes the members of an object of an item, what the script has not looked at as it was read, and reports
// whether there are none.
func (w *writer) lazy(o *goja.Object, l *lazy, depth int) (empty bool) {
	empty = true
	l.look()
	// A toJSON of a member may change the object.
	for i := 0; i < len(l.members); i++ {
		m := &l.members[i]
		if m.value != nil || m.text == "" {
			w.member(o, m.name, depth, &empty)
			continue
		}
		if w.bare && depth == 1 && document.IsSystem(m.name) {
			continue
		}
		w.separate(&empty)
		w.out = append(document.AppendString(w.out, m.name), ':')
		w.out = append(w.out, m.text...)
	}
	return empty
}
