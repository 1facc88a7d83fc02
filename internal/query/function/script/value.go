// SPDX-License-Identifier: Apache-2.0

package script

import (
	"bytes"
	"strconv"

	"github.com/dop251/goja"

	"github.com/ilion-db/ilion/internal/model/document"
)

// value converts JSON to a JavaScript value.
func (r *realm) value(v document.Value) goja.Value {
	switch v.Kind() {
	case document.Null:
		return goja.Null()
	case document.Boolean:
		return r.vm.ToValue(v.IsTrue())
	case document.Number:
		return r.vm.ToValue(v.Float())
	case document.String:
		return r.vm.ToValue(v.Str())
	case document.Array:
		r.heed()
		var elements []any
		for e := range v.Elements() {
			elements = append(elements, r.value(e))
		}
		return r.vm.NewArray(elements...)
	case document.Object:
		r.heed()
		o := r.vm.NewObject()
		for name, member := range v.Members() {
			r.put(o, name, r.value(member))
		}
		return o
	}
	return goja.Undefined()
}

// inherited lists the names of the properties of Object.prototype. An assignment to such a property would not create an
// own property.
var inherited = map[string]bool{
	"__proto__": true, "constructor": true, "toString": true, "toLocaleString": true, "valueOf": true,
	"hasOwnProperty": true, "isPrototypeOf": true, "propertyIsEnumerable": true, "__defineGetter__": true,
	"__defineSetter__": true, "__lookupGetter__": true, "__lookupSetter__": true,
}

func (r *realm) put(o *goja.Object, name string, v goja.Value) {
	if inherited[name] {
		must(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
		return
	}
	must(o.Set(name, v))
}

// heed interrupts a long-running built-in after the script has been stopped. It throws an exception, but the engine
// ends the script before the script can catch the exception.
func (r *realm) heed() {
	if r.run != nil && r.run.stopped.Load() != nil {
		panic(r.vm.ToValue("the script must end"))
	}
}

// jsonParse implements JSON.parse.
func (r *realm) jsonParse(c goja.FunctionCall) goja.Value {
	text := c.Argument(0).String()
	v, err := document.Parse([]byte(text), document.Limits{Depth: jsonDepthMax, Size: 4 * stringMax})
	if err != nil {
		panic(r.throwable("SyntaxError", err.Error()))
	}
	value := r.value(v)
	if revive, ok := goja.AssertFunction(c.Argument(1)); ok {
		root := r.vm.NewObject()
		must(root.Set("", value))
		return r.revive(revive, root, "", 0)
	}
	return value
}

// revive calls the reviver of JSON.parse for the parts of a value and then for the value.
func (r *realm) revive(by goja.Callable, holder *goja.Object, name string, depth int) goja.Value {
	v := holder.Get(name)
	if o, ok := v.(*goja.Object); ok && depth <= jsonDepthMax {
		for _, key := range o.Keys() {
			if to := r.revive(by, o, key, depth+1); goja.IsUndefined(to) {
				must(o.Delete(key))
			} else {
				r.put(o, key, to)
			}
		}
	}
	to, err := by(holder, r.vm.ToValue(name), v)
	if err != nil {
		panic(err)
	}
	return to
}

// jsonStringify implements JSON.stringify.
func (r *realm) jsonStringify(c goja.FunctionCall) goja.Value {
	w := &writer{realm: r, bytesMax: 4 * stringMax, depthMax: jsonDepthMax}
	switch replacer := c.Argument(1).(type) {
	case *goja.Object:
		if f, ok := goja.AssertFunction(replacer); ok {
			w.replace = f
		} else if replacer.ClassName() == "Array" {
			w.only = map[string]bool{}
			for _, key := range replacer.Keys() {
				w.only[replacer.Get(key).String()] = true
			}
		}
	}
	switch space := c.Argument(2); {
	case goja.IsNumber(space):
		w.indent = "          "[:max(0, min(10, space.ToInteger()))]
	case goja.IsString(space):
		w.indent = space.String()
		w.indent = w.indent[:min(10, len(w.indent))]
	}
	holder := r.vm.NewObject()
	must(holder.Set("", c.Argument(0)))
	if !w.value(holder, "", c.Argument(0), 1) {
		return goja.Undefined()
	}
	return r.vm.ToValue(string(w.out))
}

// writer writes a value in the same way as JSON.stringify. If the value has no JSON representation or the result is too
// large, writer panics with a JavaScript error.
type writer struct {
	realm              *realm
	out                []byte
	bytesMax, depthMax int
	replace            goja.Callable
	only               map[string]bool
	indent             string
	level              int
	// bare reports whether the writer omits the system members of an item.
	bare bool
}

// value writes v. If v has no JSON representation, as in the case of undefined, value returns false.
func (w *writer) value(holder *goja.Object, name string, v goja.Value, depth int) bool {
	w.realm.heed()
	o, isObject := v.(*goja.Object)
	if isObject {
		if f, ok := goja.AssertFunction(o.Get("toJSON")); ok {
			v = w.call(f, o, w.realm.vm.ToValue(name))
		}
	}
	if w.replace != nil {
		v = w.call(w.replace, holder, w.realm.vm.ToValue(name), v)
	}
	if len(w.out) > w.bytesMax {
		panic(w.realm.throwable("RangeError", "The JSON is longer than "+strconv.Itoa(w.bytesMax)+" bytes"))
	}
	if o, isObject = v.(*goja.Object); isObject {
		return w.object(o, depth)
	}
	switch {
	case v == nil || goja.IsUndefined(v):
		return false
	case goja.IsNull(v):
		w.out = append(w.out, "null"...)
	case goja.IsString(v):
		w.out = document.AppendString(w.out, v.String())
	case goja.IsNumber(v):
		w.number(v.ToFloat())
	default:
		b, ok := v.Export().(bool)
		if !ok {
			return false // a symbol
		}
		w.out = strconv.AppendBool(w.out, b)
	}
	return true
}

func (w *writer) number(f float64) {
	if f-f != 0 { // JSON cannot represent infinities or NaN
		w.out = append(w.out, "null"...)
		return
	}
	w.out = document.AppendNumber(w.out, f)
}

func (w *writer) call(f goja.Callable, this goja.Value, args ...goja.Value) goja.Value {
	v, err := f(this, args...)
	if err != nil {
		panic(err)
	}
	return v
}

func (w *writer) object(o *goja.Object, depth int) bool {
	switch o.ClassName() {
	case "Function":
		return false
	case "Number":
		w.number(o.ToFloat())
		return true
	case "String":
		w.out = document.AppendString(w.out, o.String())
		return true
	case "Boolean":
		w.out = strconv.AppendBool(w.out, o.Export() == true)
		return true
	}
	if depth > w.depthMax {
		panic(w.realm.throwable("TypeError", "The value is nested more than "+strconv.Itoa(w.depthMax)+
			" levels deep or contains itself"))
	}
	isArray := o.ClassName() == "Array"
	open, end := byte('{'), byte('}')
	if isArray {
		open, end = '[', ']'
	}
	w.out = append(w.out, open)
	w.level++
	empty := true
	if isArray {
		n := o.Get("length").ToInteger()
		if n > arrayMax {
			panic(w.realm.throwable("RangeError", "The array is longer than "+strconv.Itoa(arrayMax)+" elements"))
		}
		for i := range n {
			w.separate(&empty)
			name := strconv.FormatInt(i, 10)
			if !w.value(o, name, o.Get(name), depth+1) {
				w.out = append(w.out, "null"...)
			}
		}
	} else if l := lazyOf(o); l != nil && w.replace == nil && w.only == nil && w.indent == "" {
		empty = w.lazy(o, l, depth)
	} else {
		for _, name := range o.Keys() {
			if w.only == nil || w.only[name] {
				w.member(o, name, depth, &empty)
			}
		}
	}
	w.level--
	if !empty {
		w.line()
	}
	w.out = append(w.out, end)
	return true
}

// member writes a member of an object. If the value has no JSON representation, member writes nothing.
func (w *writer) member(o *goja.Object, name string, depth int, empty *bool) {
	if w.bare && depth == 1 && document.IsSystem(name) {
		return
	}
	begin, was := len(w.out), *empty
	w.separate(empty)
	w.out = append(document.AppendString(w.out, name), ':')
	if w.indent != "" {
		w.out = append(w.out, ' ')
	}
	if !w.value(o, name, o.Get(name), depth+1) {
		w.out, *empty = w.out[:begin], was
	}
}

func (w *writer) separate(empty *bool) {
	if !*empty {
		w.out = append(w.out, ',')
	}
	*empty = false
	w.line()
}

// line begins a new line if the JSON is indented.
func (w *writer) line() {
	if w.indent == "" {
		return
	}
	w.out = append(w.out, '\n')
	for range w.level {
		w.out = append(w.out, w.indent...)
	}
}

// json returns the JSON of v for a parameter or a result. If v has no JSON representation, json returns nil.
func (r *realm) json(v goja.Value, bytesMax, depthMax int) []byte {
	return r.written(v, &writer{realm: r, bytesMax: bytesMax, depthMax: depthMax})
}

// scratchMax is the maximum size in bytes of the buffer that a realm retains.
const scratchMax = 64 << 10

// written returns the JSON that w writes for v.
func (r *realm) written(v goja.Value, w *writer) []byte {
	// A toJSON method may write JSON recursively, so the buffer must not be shared.
	w.out, r.scratch = r.scratch[:0], nil
	there := w.value(nil, "", v, 1)
	if cap(w.out) <= scratchMax {
		r.scratch = w.out
	}
	if !there {
		return nil
	}
	return bytes.Clone(w.out)
}
