// SPDX-License-Identifier: Apache-2.0

package script

import (
	"reflect"
	"slices"

	"github.com/dop251/goja"

	"github.com/ilion-db/ilion/internal/model/document"
)

// lazy implements goja.DynamicObject for an item that a script has read. A member is converted to a JavaScript value
// when the script accesses the member. Other members are written back unchanged. Most scripts access few members of an
// item and then store the item. Creating JavaScript objects for all members took a third of the time of these scripts.
// Unlike other objects, a lazy object cannot be frozen and supports only plain properties.
type lazy struct {
	realm *realm
	// of is the item of the object. For a part of an item and for a query result, of is nil and text is the JSON.
	// looked reports whether members is set.
	of     Item
	text   string
	looked bool
	// glances is the number of member accesses before members was set.
	glances int
	// system holds the system members of the item. system is nil until a script accesses a system member.
	system *document.System
	// members holds the members in order.
	members []member
	// index maps member names to indexes in members if the object has many members. Otherwise, index is nil.
	index map[string]int
}

// member is a member of a lazy object. It holds the JSON that was read and the JavaScript value. The value is created
// on the first access or set by the script. For a system member of an item, the JSON is empty.
type member struct {
	name, text string
	value      goja.Value
}

// fewMembers is the maximum number of members for which find uses a linear search.
const fewMembers = 24

var lazyType = reflect.TypeFor[*lazy]()

// lazyOf returns the lazy object of o, or nil if o is not a lazy object.
func lazyOf(o *goja.Object) *lazy {
	if o.ExportType() != lazyType {
		return nil
	}
	l, _ := o.Export().(*lazy)
	return l
}

// item returns an object for an item.
func (r *realm) item(i Item) goja.Value { return r.vm.NewDynamicObject(&lazy{realm: r, of: i}) }

// part returns a JavaScript value for a part of an item or for a query result.
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

// look parses the members of an object on first access.
func (l *lazy) look() {
	if l.looked {
		return
	}
	l.realm.heed()
	l.looked = true
	v := l.json()
	l.members = make([]member, 0, fewMembers/2)
	for name, m := range v.Members() { // the names are distinct because the text has already been parsed
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

// json returns the JSON of the object without system members.
func (l *lazy) json() document.Value {
	if l.of != nil {
		return document.View(l.of.JSON())
	}
	return document.ViewText(l.text)
}

// glancesMax is the number of single-member searches after which all members of the object are parsed.
const glancesMax = 4

// glance returns the value of a member without parsing the other members. For an object, it returns nil, because
// repeated accesses must return the same object.
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

// made returns the JavaScript value of a member. It creates the value on the first access.
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

// find returns the index of a member, or -1.
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

// count rebuilds index.
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

// lazy writes the members of a lazy object. It writes members that the script has not accessed unchanged. empty reports
// whether the object has no members.
func (w *writer) lazy(o *goja.Object, l *lazy, depth int) (empty bool) {
	empty = true
	l.look()
	// A member's toJSON method may change the object.
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
