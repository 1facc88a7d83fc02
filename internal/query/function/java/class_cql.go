// SPDX-License-Identifier: Apache-2.0

package java

import (
	"encoding/binary"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// getters maps the name suffix of a getter of UDTValue and TupleValue to a class. The getter returns this class, and
// the corresponding setter accepts this class.
var getters = map[string]string{"Bool": "boolean", "Byte": "byte", "Short": "short", "Int": "int", "Long": "long",
	"Float": "float", "Double": "double", "String": "String", "UUID": "UUID", "Timestamp": "Date", "Date": "LocalDate",
	"Time": "long", "Varint": "BigInteger", "Decimal": "BigDecimal", "Inet": "InetAddress", "Bytes": "ByteBuffer",
	"BytesUnsafe": "ByteBuffer", "Object": "Object", "List": "List", "Set": "Set", "Map": "Map",
	"TupleValue": "TupleValue", "UDTValue": "UDTValue"}

// fieldIndex returns the index of a field. v is the name or the number of the field.
func (r *record) fieldIndex(v value, named bool) int {
	if named {
		name, _ := v.r.(string)
		if i := r.typ.FieldIndex(name); i >= 0 {
			return i
		}
		throw("IllegalArgumentException", "%s is not a field defined in this definition", name)
	}
	if v.n < 0 || v.n >= int64(len(r.fields)) {
		throw("ArrayIndexOutOfBoundsException", "Index %d out of bounds for length %d", v.n, len(r.fields))
	}
	return int(v.n)
}

func defRecords() {
	for _, class := range []string{"UDTValue", "TupleValue"} {
		for _, by := range []string{"int", "String"} {
			if class == "TupleValue" && by == "String" {
				continue
			}
			named := by == "String"
			for name, t := range getters {
				defField(class, by, name, t, named)
			}
			def(class, "isNull("+by+")boolean", func(_ *frame, a []value) value {
				r := a[0].r.(*record)
				return ofBool(r.fields[r.fieldIndex(a[1], named)] == nil)
			})
			def(class, "setToNull("+by+")"+class, func(_ *frame, a []value) value {
				r := a[0].r.(*record)
				r.fields[r.fieldIndex(a[1], named)] = nil
				return a[0]
			})
		}
	}
	def("UDFContext", "newReturnUDTValue()UDTValue", func(f *frame, a []value) value {
		return newRecord(f, a[0].r.(*context).program.signature.Returns, cqltype.UDT)
	})
	def("UDFContext", "newReturnTupleValue()TupleValue", func(f *frame, a []value) value {
		return newRecord(f, a[0].r.(*context).program.signature.Returns, cqltype.Tuple)
	})
	for method, kind := range map[string]cqltype.Kind{"newArgUDTValue": cqltype.UDT,
		"newArgTupleValue": cqltype.Tuple} {
		result := "UDTValue"
		if kind == cqltype.Tuple {
			result = "TupleValue"
		}
		def("UDFContext", method+"(String)"+result, func(f *frame, a []value) value {
			s := &a[0].r.(*context).program.signature
			for i, name := range s.ArgNames {
				if name == a[1].r {
					return newRecord(f, s.Args[i], kind)
				}
			}
			throw("IllegalArgumentException", "Did not find an argument with name '%s'", f.string(a[1].r))
			return value{}
		})
		def("UDFContext", method+"(int)"+result, func(f *frame, a []value) value {
			s := &a[0].r.(*context).program.signature
			if a[1].n < 0 || a[1].n >= int64(len(s.Args)) {
				throw("IllegalArgumentException", "Function does not have an argument with index %d", a[1].n)
			}
			return newRecord(f, s.Args[a[1].n], kind)
		})
	}
}

func newRecord(f *frame, t *cqltype.Type, kind cqltype.Kind) value {
	if t.Kind != kind {
		throw("IllegalStateException", "cannot create a value of type %s with this method", t)
	}
	f.alloc(16*len(t.Elems) + 32)
	return ofRef(&record{t, make([]any, len(t.Elems))})
}

func defField(class, by, name, t string, named bool) {
	p := primitiveTypes[t]
	params := ""
	switch name {
	case "List", "Set":
		params = ",Object"
	case "Map":
		params = ",Object,Object"
	}
	get := func(_ *frame, a []value) value {
		r := a[0].r.(*record)
		v := r.fields[r.fieldIndex(a[1], named)]
		if p == nil {
			if v != nil && !isA(v, &jtype{name: t}) {
				throw("ClassCastException", "class %s cannot be cast to class %s", fullName(classOf(v)), fullName(t))
			}
			return ofRef(v)
		}
		b, ok := v.(box)
		if ok && b.kind != p.kind {
			throw("ClassCastException", "class %s cannot be cast to class %s", fullName(classOf(v)),
				fullName(boxes[p.kind]))
		}
		return ofInt(b.n) // null is converted to 0
	}
	def(class, "get"+name+"("+by+params+")"+t, get)
	if params != "" {
		def(class, "get"+name+"("+by+")"+t, get)
	}
	def(class, "set"+name+"("+by+","+t+")"+class, func(f *frame, a []value) value {
		r := a[0].r.(*record)
		i := r.fieldIndex(a[1], named)
		v := a[2].r
		if p != nil {
			v = box{p.kind, a[2].n}
		}
		if v != nil && f.program.encode(f, r.typ.Elems[i], v) == nil {
			throw("IllegalArgumentException", "class %s does not match field %d of type %s", fullName(classOf(v)), i,
				r.typ.Elems[i])
		}
		r.fields[i] = v
		return a[0]
	})
}

func init() {
	defRecords()
	throwable := func(f *frame, a []value) value {
		t := &Thrown{}
		if len(a) > 0 && a[0].r != nil {
			t.Message, t.HasMessage = f.string(a[0].r), true
		}
		f.alloc(64)
		return ofRef(t)
	}
	def("Throwable", "new()Throwable", throwable)
	def("Throwable", "new(String)Throwable", throwable)
	def("Throwable", "new(Throwable)Throwable", throwable)
	def("Throwable", "new(String,Throwable)Throwable", throwable)
	message := func(_ *frame, a []value) value {
		if t := a[0].r.(*Thrown); t.HasMessage {
			return ofRef(t.Message)
		}
		return value{}
	}
	def("Throwable", "getMessage()String", message)
	def("Throwable", "getLocalizedMessage()String", message)
	def("Date", "new(long)Date", func(_ *frame, a []value) value { return ofRef(date(a[0].n)) })
	def("Date", "getTime()long", func(_ *frame, a []value) value { return ofInt(int64(a[0].r.(date))) })
	for name, before := range map[string]bool{"before": true, "after": false} {
		def("Date", name+"(Date)boolean", func(f *frame, a []value) value {
			d, ok := a[1].r.(date)
			if !ok {
				f.throwNull("Cannot read a field of a Date", "the argument")
			}
			return ofBool(a[0].r != a[1].r && (a[0].r.(date) < d) == before)
		})
	}
	def("Date", "compareTo(Date)int", func(f *frame, a []value) value { return ofInt(int64(f.order(a[0].r, a[1].r))) })
	def("UUID", "static fromString(String)UUID", func(f *frame, a []value) value {
		s := notNull(f, a[0])
		u, ok := cqltype.ParseUUID(s)
		if !ok {
			throw("IllegalArgumentException", "Invalid UUID string: %s", s)
		}
		return ofRef(uuidValue(u))
	})
	part := func(v value, from int) value {
		u := v.r.(uuidValue)
		return ofInt(int64(binary.BigEndian.Uint64(u[from:])))
	}
	def("UUID", "getMostSignificantBits()long", func(_ *frame, a []value) value { return part(a[0], 0) })
	def("UUID", "getLeastSignificantBits()long", func(_ *frame, a []value) value { return part(a[0], 8) })
	def("UUID", "version()int", func(_ *frame, a []value) value {
		u := a[0].r.(uuidValue)
		return ofInt(int64(u[6] >> 4))
	})
	civil := func(v value) time.Time { return time.Unix(int64(v.r.(localDate))*86400, 0).UTC() }
	def("LocalDate", "getYear()int", func(_ *frame, a []value) value { return ofInt(int64(civil(a[0]).Year())) })
	def("LocalDate", "getMonth()int", func(_ *frame, a []value) value { return ofInt(int64(civil(a[0]).Month())) })
	def("LocalDate", "getDay()int", func(_ *frame, a []value) value { return ofInt(int64(civil(a[0]).Day())) })
	def("LocalDate", "getDaysSinceEpoch()int", func(_ *frame, a []value) value {
		return ofInt(int64(a[0].r.(localDate)))
	})
	def("LocalDate", "getMillisSinceEpoch()long", func(_ *frame, a []value) value {
		return ofInt(int64(a[0].r.(localDate)) * 86400_000)
	})
	def("LocalDate", "static fromDaysSinceEpoch(int)LocalDate", func(_ *frame, a []value) value {
		return ofRef(localDate(a[0].n))
	})
	def("InetAddress", "getHostAddress()String", func(f *frame, a []value) value {
		return f.newString(cqltype.Native(cqltype.Inet).Text([]byte(a[0].r.(inet))))
	})
	def("ByteBuffer", "remaining()int", func(_ *frame, a []value) value {
		b := a[0].r.(*buffer)
		return ofInt(int64(len(b.bytes) - b.pos))
	})
	def("ByteBuffer", "get(int)byte", func(_ *frame, a []value) value {
		b := a[0].r.(*buffer)
		if a[1].n < 0 || a[1].n >= int64(len(b.bytes)) {
			panic(&Thrown{Class: "java.lang.IndexOutOfBoundsException"})
		}
		return ofInt(int64(int8(b.bytes[a[1].n])))
	})
	def("ByteBuffer", "get()byte", func(_ *frame, a []value) value {
		b := a[0].r.(*buffer)
		if b.pos >= len(b.bytes) {
			panic(&Thrown{Class: "java.nio.BufferUnderflowException"})
		}
		b.pos++
		return ofInt(int64(int8(b.bytes[b.pos-1])))
	})
}
