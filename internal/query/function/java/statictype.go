// SPDX-License-Identifier: Apache-2.0

package java

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// kind is the representation of a type's values: a primitive or a reference.
type kind uint8

const (
	kRef kind = iota
	kBoolean
	kByte
	kShort
	kChar
	kInt
	kLong
	kFloat
	kDouble
	kVoid
)

// jtype is a static type. Two types are equal if their texts are equal.
type jtype struct {
	kind kind
	// name is the simple name of the type, such as int or List. For the type of null, name is "null". For an expression
	// with an error, name is empty.
	name string
	args []*jtype
	elem *jtype // the element type of an array
}

var (
	jBad     = &jtype{}
	jNull    = &jtype{name: "null"}
	jVoid    = &jtype{kind: kVoid, name: "void"}
	jBoolean = &jtype{kind: kBoolean, name: "boolean"}
	jByte    = &jtype{kind: kByte, name: "byte"}
	jShort   = &jtype{kind: kShort, name: "short"}
	jChar    = &jtype{kind: kChar, name: "char"}
	jInt     = &jtype{kind: kInt, name: "int"}
	jLong    = &jtype{kind: kLong, name: "long"}
	jFloat   = &jtype{kind: kFloat, name: "float"}
	jDouble  = &jtype{kind: kDouble, name: "double"}
	jString  = class("String")
	jObject  = class("Object")
)

func class(name string, args ...*jtype) *jtype { return &jtype{name: name, args: args} }

func arrayOf(t *jtype) *jtype { return &jtype{name: t.name + "[]", elem: t} }

// boxes maps primitive types to their box classes.
var boxes = map[kind]string{kBoolean: "Boolean", kByte: "Byte", kShort: "Short", kChar: "Character", kInt: "Integer",
	kLong: "Long", kFloat: "Float", kDouble: "Double"}

var primitiveTypes = map[string]*jtype{"boolean": jBoolean, "byte": jByte, "short": jShort, "char": jChar, "int": jInt,
	"long": jLong, "float": jFloat, "double": jDouble}

var unboxes = map[string]*jtype{"Boolean": jBoolean, "Byte": jByte, "Short": jShort, "Character": jChar,
	"Integer": jInt, "Long": jLong, "Float": jFloat, "Double": jDouble}

// unboxed returns the primitive type of a primitive or a box. For other types, it returns nil.
func (t *jtype) unboxed() *jtype {
	if t.kind != kRef {
		return t
	}
	return unboxes[t.name]
}

// boxed returns the box class of a primitive type. For other types, it returns the type.
func (t *jtype) boxed() *jtype {
	if t.kind == kRef || t.kind == kVoid {
		return t
	}
	return class(boxes[t.kind])
}

func (t *jtype) String() string {
	if len(t.args) == 0 {
		return t.name
	}
	texts := make([]string, len(t.args))
	for i, a := range t.args {
		texts[i] = a.String()
	}
	return t.name + "<" + strings.Join(texts, ",") + ">"
}

func (t *jtype) numeric() bool  { return t.kind >= kByte && t.kind <= kDouble }
func (t *jtype) integral() bool { return t.kind >= kByte && t.kind <= kLong }

// widens reports whether the conversion between two primitive types is a widening conversion.
func widens(from, to kind) bool {
	switch {
	case from == to:
		return true
	case to == kChar || from == kBoolean || to == kBoolean:
		return false
	case from == kChar:
		return to >= kInt && to <= kDouble
	}
	return from < to && from >= kByte && to <= kDouble
}

// classes maps the available classes to their superclasses and packages.
var classes = map[string]struct {
	in     string
	supers []string
}{
	"Object": {in: "java.lang"}, "CharSequence": {in: "java.lang"}, "Comparable": {in: "java.lang"},
	"Number": {in: "java.lang"}, "Math": {in: "java.lang"}, "Iterable": {in: "java.lang"},
	"String":        {"java.lang", []string{"CharSequence", "Comparable"}},
	"StringBuilder": {"java.lang", []string{"CharSequence"}}, "StringBuffer": {"java.lang", []string{"CharSequence"}},
	"Boolean": {"java.lang", []string{"Comparable"}}, "Character": {"java.lang", []string{"Comparable"}},
	"Byte": {"java.lang", []string{"Number", "Comparable"}}, "Short": {"java.lang", []string{"Number", "Comparable"}},
	"Integer":    {"java.lang", []string{"Number", "Comparable"}},
	"Long":       {"java.lang", []string{"Number", "Comparable"}},
	"Float":      {"java.lang", []string{"Number", "Comparable"}},
	"Double":     {"java.lang", []string{"Number", "Comparable"}},
	"BigInteger": {"java.math", []string{"Number", "Comparable"}},
	"BigDecimal": {"java.math", []string{"Number", "Comparable"}},
	"Collection": {"java.util", []string{"Iterable"}},
	"List":       {"java.util", []string{"Collection"}}, "Set": {"java.util", []string{"Collection"}},
	"ArrayList": {"java.util", []string{"List"}}, "LinkedList": {"java.util", []string{"List"}},
	"HashSet": {"java.util", []string{"Set"}}, "LinkedHashSet": {"java.util", []string{"Set"}},
	"Map": {in: "java.util"}, "HashMap": {"java.util", []string{"Map"}},
	"LinkedHashMap": {"java.util", []string{"Map"}},
	"Map.Entry":     {in: "java.util"}, "Iterator": {in: "java.util"}, "Collections": {in: "java.util"},
	"Arrays": {in: "java.util"}, "Objects": {in: "java.util"},
	"Date": {"java.util", []string{"Comparable"}}, "UUID": {"java.util", []string{"Comparable"}},
	"ByteBuffer": {in: "java.nio"}, "InetAddress": {in: "java.net"},
	"LocalDate": {in: driver}, "Duration": {in: driver},
	"UDTValue": {in: driver}, "TupleValue": {in: driver}, "UDFContext": {in: "org.apache.cassandra.cql3.functions"},
	"Throwable": {in: "java.lang"}, "Exception": {"java.lang", []string{"Throwable"}},
	"RuntimeException":                {"java.lang", []string{"Exception"}},
	"IllegalArgumentException":        {"java.lang", []string{"RuntimeException"}},
	"IllegalStateException":           {"java.lang", []string{"RuntimeException"}},
	"ArithmeticException":             {"java.lang", []string{"RuntimeException"}},
	"NullPointerException":            {"java.lang", []string{"RuntimeException"}},
	"ClassCastException":              {"java.lang", []string{"RuntimeException"}},
	"UnsupportedOperationException":   {"java.lang", []string{"RuntimeException"}},
	"NegativeArraySizeException":      {"java.lang", []string{"RuntimeException"}},
	"NumberFormatException":           {"java.lang", []string{"IllegalArgumentException"}},
	"IndexOutOfBoundsException":       {"java.lang", []string{"RuntimeException"}},
	"StringIndexOutOfBoundsException": {"java.lang", []string{"IndexOutOfBoundsException"}},
	"ArrayIndexOutOfBoundsException":  {"java.lang", []string{"IndexOutOfBoundsException"}},
	"NoSuchElementException":          {"java.util", []string{"RuntimeException"}},
}

const driver = "org.apache.cassandra.cql3.functions.types"

// unsupportedPackages lists packages that are available in Cassandra but that Ilion does not support.
var unsupportedPackages = []string{"java.util.", "java.math.", "java.text.", "java.time.", "java.nio.", "java.net.",
	"java.lang."}

// extends reports whether a class equals or extends another class.
func extends(name, super string) bool {
	if name == super || super == "Object" {
		return true
	}
	return slices.ContainsFunc(classes[name].supers, func(s string) bool { return extends(s, super) })
}

// assignable reports whether a value can be assigned to a type without boxing or unboxing.
func assignable(from, to *jtype) bool {
	switch {
	case from == jBad || to == jBad:
		return true
	case from.kind != kRef || to.kind != kRef:
		return from.kind != kRef && to.kind != kRef && widens(from.kind, to.kind)
	case from == jNull:
		return true
	case from.elem != nil || to.elem != nil:
		return to.name == "Object" || from.elem != nil && to.elem != nil && from.elem.String() == to.elem.String()
	case !extends(from.name, to.name):
		return false
	}
	if len(from.args) == 0 || len(to.args) == 0 || len(from.args) != len(to.args) {
		return true // a raw type
	}
	return slices.EqualFunc(from.args, to.args, func(a, b *jtype) bool { return a.String() == b.String() })
}

// convertible reports whether a value can be assigned to a type, possibly with boxing or unboxing.
func convertible(from, to *jtype) bool {
	switch {
	case assignable(from, to):
		return true
	case from.kind != kRef && from.kind != kVoid && to.kind == kRef:
		return assignable(from.boxed(), to)
	case from.kind == kRef && to.kind != kRef:
		u := from.unboxed()
		return u != nil && widens(u.kind, to.kind)
	}
	return false
}

// typeOf returns the Java type of a CQL type. If primitive is true, the result may be a primitive type.
func typeOf(t *cqltype.Type, primitive bool) *jtype {
	var p *jtype
	switch t.Kind {
	case cqltype.Boolean:
		p = jBoolean
	case cqltype.Tinyint:
		p = jByte
	case cqltype.Smallint:
		p = jShort
	case cqltype.Int:
		p = jInt
	case cqltype.Bigint, cqltype.Counter, cqltype.Time:
		p = jLong
	case cqltype.Float:
		p = jFloat
	case cqltype.Double:
		p = jDouble
	case cqltype.Ascii, cqltype.Text:
		return jString
	case cqltype.Timestamp:
		return class("Date")
	case cqltype.Date:
		return class("LocalDate")
	case cqltype.UUID, cqltype.Timeuuid:
		return class("UUID")
	case cqltype.Varint:
		return class("BigInteger")
	case cqltype.Decimal:
		return class("BigDecimal")
	case cqltype.Inet:
		return class("InetAddress")
	case cqltype.Duration:
		return class("Duration")
	case cqltype.List, cqltype.Vector:
		return class("List", typeOf(t.Elems[0], false))
	case cqltype.Set:
		return class("Set", typeOf(t.Elems[0], false))
	case cqltype.Map:
		return class("Map", typeOf(t.Elems[0], false), typeOf(t.Elems[1], false))
	case cqltype.Tuple:
		return class("TupleValue")
	case cqltype.UDT:
		return class("UDTValue")
	default:
		return class("ByteBuffer")
	}
	if primitive {
		return p
	}
	return p.boxed()
}
