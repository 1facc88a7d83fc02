// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PatchMax is the maximum number of operations in a patch.
const PatchMax = 10

// Operation is one operation of a patch.
type Operation struct {
	Op    string // add, set, replace, remove, incr, or move
	Path  string // a JSON pointer, such as /a/b; in a name, ~1 represents / and ~0 represents ~
	From  string // only for move
	Value Value  // only for add, set, replace, and incr
}

// PatchError reports an operation of a patch that cannot be applied.
type PatchError struct {
	Operation int // counted from 1; 0 for the patch as a whole
	Message   string
}

func (e *PatchError) Error() string {
	if e.Operation == 0 {
		return e.Message
	}
	return fmt.Sprintf("For Operation(%d): %s", e.Operation, e.Message)
}

// ParsePatch parses the body of a patch request. The body is an array of operations, or an object with the members
// operations and condition. Errors are of the type *PatchError.
func ParsePatch(v Value) (operations []Operation, condition string, err error) {
	list := v
	if v.kind == Object {
		list = v.Get("operations")
		if c := v.Get("condition"); c.kind == String {
			condition = c.Str()
		} else if c.IsDefined() && c.kind != Null {
			return nil, "", &PatchError{0, "The condition of a patch must be a string."}
		}
	}
	if list.kind != Array {
		return nil, "", &PatchError{0, "A patch must be an array of operations, or an object with the array as " +
			"'operations'."}
	}
	for o := range list.Elements() {
		op := Operation{strings.ToLower(o.Get("op").Str()), o.Get("path").Str(), o.Get("from").Str(), o.Get("value")}
		operations = append(operations, op)
		if len(operations) > PatchMax {
			return nil, "", &PatchError{0, fmt.Sprintf("A patch cannot have more than %d operations.", PatchMax)}
		}
		if why := op.wrong(); why != "" {
			return nil, "", &PatchError{len(operations), why}
		}
	}
	if len(operations) == 0 {
		return nil, "", &PatchError{0, "A patch must have at least one operation."}
	}
	return operations, condition, nil
}

// wrong returns the reason why an operation is invalid for every document, or an empty string.
func (o *Operation) wrong() string {
	switch o.Op {
	case "add", "set", "replace", "incr":
		if !o.Value.IsDefined() {
			return fmt.Sprintf("'%s' requires a value.", o.Op)
		}
		if o.Op == "incr" && o.Value.kind != Number {
			return "'incr' requires a number as its value."
		}
	case "move":
		if o.From == o.Path || strings.HasPrefix(o.Path, o.From+"/") {
			return fmt.Sprintf("'%s' cannot be moved into itself.", o.From)
		}
		if _, err := pointer(o.From); err != "" {
			return err
		}
	case "remove":
	default:
		return fmt.Sprintf("Unknown operation '%s': use add, set, replace, remove, incr, or move.", o.Op)
	}
	_, why := pointer(o.Path)
	return why
}

// pointer splits a JSON pointer into names.
func pointer(path string) (names []string, wrong string) {
	if len(path) < 2 || path[0] != '/' {
		return nil, fmt.Sprintf("the path '%s' must start with / and specify a property.", path)
	}
	names = strings.Split(path[1:], "/")
	for i, n := range names {
		if n == "" {
			return nil, fmt.Sprintf("the path '%s' has an empty name.", path)
		}
		names[i] = strings.ReplaceAll(strings.ReplaceAll(n, "~1", "/"), "~0", "~")
	}
	if slices.Contains(SystemNames, names[0]) {
		return nil, fmt.Sprintf("'%s' is a system property and cannot be patched.", path)
	}
	return names, ""
}

// Patch applies operations to a document in sequence. It returns the result or a *PatchError. Parts of the document
// that the operations do not change keep their text.
func Patch(doc Value, operations []Operation) (Value, error) {
	for i := range operations {
		o := &operations[i]
		why := o.wrong()
		if why == "" {
			doc, why = o.apply(doc)
		}
		if why != "" {
			return Value{}, &PatchError{i + 1, why}
		}
	}
	return doc, nil
}

func (o *Operation) apply(doc Value) (out Value, wrong string) {
	names, _ := pointer(o.Path)
	if o.Op != "move" {
		return change(doc, names, o.Path, func(in Value, name string) (Value, string) {
			return edit(in, name, o.Op, o.Path, o.Value)
		})
	}
	from, _ := pointer(o.From)
	var moved Value
	doc, wrong = change(doc, from, o.From, func(in Value, name string) (Value, string) {
		moved = child(in, name)
		return edit(in, name, "remove", o.From, Value{})
	})
	if wrong != "" {
		return Value{}, wrong
	}
	return change(doc, names, o.Path, func(in Value, name string) (Value, string) {
		return edit(in, name, "add", o.Path, moved)
	})
}

// child returns a member or element by its name in a path.
func child(in Value, name string) Value {
	if in.kind == Array {
		if i, ok := element(name); ok {
			return in.Index(i)
		}
		return Value{}
	}
	return in.Get(name)
}

// element parses the index of an element, which consists of digits without leading zeros.
func element(name string) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == name
}

// change finds the array or object that contains the last of names, and replaces this array or object with the result
// of f.
func change(v Value, names []string, path string, f func(in Value, name string) (Value, string)) (Value, string) {
	if len(names) == 1 {
		return f(v, names[0])
	}
	c := child(v, names[0])
	if c.kind != Object && c.kind != Array {
		return Value{}, fmt.Sprintf("The parent of '%s' does not exist in the item. Add '%s' first.", path, names[0])
	}
	c, wrong := change(c, names[1:], path, f)
	if wrong != "" {
		return Value{}, wrong
	}
	if v.kind == Object {
		return With(v, names[0], c), ""
	}
	i, _ := element(names[0])
	elements := slices.Collect(v.Elements())
	elements[i] = c
	return ArrayValue(elements), ""
}

// edit applies one operation to the array or object that contains or will contain the target.
func edit(in Value, name, op, path string, value Value) (Value, string) {
	if in.kind == Array {
		return editArray(in, name, op, path, value)
	}
	if in.kind != Object {
		return Value{}, fmt.Sprintf("The parent of '%s' is not an array or object.", path)
	}
	old := in.Get(name)
	if (op == "replace" || op == "remove") && !old.IsDefined() {
		return Value{}, missing(op, path)
	}
	if op == "remove" {
		return Without(in, name), ""
	}
	if op == "incr" && old.IsDefined() {
		if old.kind != Number {
			return Value{}, fmt.Sprintf("'%s' is not a number, so 'incr' cannot add to it.", path)
		}
		if value = sum(old, value); !value.IsDefined() {
			return Value{}, fmt.Sprintf("The result of '%s' would exceed the range of numbers.", path)
		}
	}
	return With(in, name, value), ""
}

func missing(op, path string) string {
	return fmt.Sprintf("'%s' does not exist in the item, so '%s' cannot be executed.", path, op)
}

func editArray(in Value, name, op, path string, value Value) (Value, string) {
	elements := slices.Collect(in.Elements())
	if name == "-" && (op == "add" || op == "set" || op == "incr") {
		return ArrayValue(append(elements, value)), ""
	}
	i, ok := element(name)
	if !ok {
		return Value{}, fmt.Sprintf("'%s' does not specify an element of the array: use an index, or - for the end.",
			path)
	}
	if i > len(elements) {
		return Value{}, fmt.Sprintf("'%s' is past the end of the array, which has %d elements.", path, len(elements))
	}
	if i == len(elements) {
		if op == "replace" || op == "remove" {
			return Value{}, missing(op, path)
		}
		return ArrayValue(append(elements, value)), ""
	}
	switch op {
	case "add":
		elements = slices.Insert(elements, i, value)
	case "remove":
		elements = slices.Delete(elements, i, i+1)
	case "incr":
		if elements[i].kind != Number {
			return Value{}, fmt.Sprintf("'%s' is not a number, so 'incr' cannot add to it.", path)
		}
		elements[i] = sum(elements[i], value)
	default:
		elements[i] = value
	}
	return ArrayValue(elements), ""
}

// sum adds two numbers. The addition is exact if both operands and the sum are 64-bit integers. Otherwise, it uses
// doubles.
func sum(a, b Value) Value {
	x, errA := strconv.ParseInt(a.String(), 10, 64)
	y, errB := strconv.ParseInt(b.String(), 10, 64)
	if s := x + y; errA == nil && errB == nil && (s > x) == (y > 0) {
		return View(strconv.AppendInt(nil, s, 10))
	}
	return NumberValue(a.Float() + b.Float())
}
