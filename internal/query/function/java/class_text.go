// SPDX-License-Identifier: Apache-2.0

package java

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// checkRange throws the exception of String.substring for an invalid range.
func checkRange(begin, end, length int64) {
	if begin < 0 || end > length || begin > end {
		throw("StringIndexOutOfBoundsException", "begin %d, end %d, length %d", begin, end, length)
	}
}

// search returns the position of sought in s in UTF-16 units. The search starts at from.
func search(f *frame, s, sought string, from int64) value {
	f.step(len(s)/16 + 1)
	n := f.units(s)
	from = max(0, min(from, n))
	i := strings.Index(slice(s, int(from), int(n)), sought)
	if i < 0 {
		return ofInt(-1)
	}
	rest := slice(s, int(from), int(n))
	return ofInt(from + int64(units(rest[:i])))
}

func charAt(f *frame, s string, i int64, what string) value {
	f.step(len(s) / 64)
	if isASCII(s) && i >= 0 && i < int64(len(s)) {
		return ofInt(int64(s[i]))
	}
	f.step(len(s) / 4)
	u := utf16.Encode([]rune(s))
	if i < 0 || i >= int64(len(u)) {
		throw("StringIndexOutOfBoundsException", "%s", what+itoa(int(i))+" out of bounds for length "+itoa(len(u)))
	}
	return ofInt(int64(u[i]))
}

// trim implements String.trim. It removes characters up to U+0020 from both ends.
func trim(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

// compare implements String.compareTo.
func (f *frame) compare(a, b string) value {
	if i := 0; isASCII(a[:min(len(a), 64)]) {
		// Most texts are equal or differ near the beginning.
		for i < len(a) && i < len(b) && a[i] == b[i] && a[i] < 0x80 {
			i++
		}
		f.step(i/16 + 1)
		if i == len(a) && i == len(b) {
			return ofInt(0)
		}
		if i < len(a) && i < len(b) && a[i] < 0x80 && b[i] < 0x80 {
			return ofInt(int64(a[i]) - int64(b[i]))
		}
	}
	f.text(a)
	f.text(b)
	return compareText(a, b)
}

func compareText(a, b string) value {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return ofInt(int64(x[i]) - int64(y[i]))
		}
	}
	return ofInt(int64(len(x) - len(y)))
}

// textMethod returns a method that converts a text with do.
func textMethod(do func(s string) string) func(f *frame, a []value) value {
	return func(f *frame, a []value) value {
		f.step(len(a[0].str()) / 4)
		return f.newString(do(a[0].str()))
	}
}

func notNull(f *frame, v value) string {
	s, ok := v.r.(string)
	if !ok {
		if v.r == nil {
			throw("NullPointerException", "the argument of a method of String is null")
		}
		s = f.string(v.r)
	}
	return s
}

func init() {
	def("String", "length()int", func(f *frame, a []value) value { return ofInt(f.units(a[0].str())) })
	def("String", "isEmpty()boolean", func(_ *frame, a []value) value { return ofBool(a[0].str() == "") })
	def("String", "isBlank()boolean", func(f *frame, a []value) value {
		f.text(a[0].str())
		return ofBool(strings.TrimFunc(a[0].str(), unicode.IsSpace) == "")
	})
	def("String", "charAt(int)char", func(f *frame, a []value) value {
		return charAt(f, a[0].str(), a[1].n, "Index ")
	})
	def("String", "substring(int)String", func(f *frame, a []value) value {
		s := a[0].str()
		n := f.units(s)
		checkRange(a[1].n, n, n)
		return f.newString(slice(s, int(a[1].n), int(n)))
	})
	substring := func(f *frame, a []value) value {
		s := a[0].str()
		checkRange(a[1].n, a[2].n, f.units(s))
		return f.newString(slice(s, int(a[1].n), int(a[2].n)))
	}
	def("String", "substring(int,int)String", substring)
	def("String", "subSequence(int,int)CharSequence", substring)
	def("String", "toUpperCase()String", textMethod(strings.ToUpper))
	def("String", "toLowerCase()String", textMethod(strings.ToLower))
	def("String", "trim()String", textMethod(trim))
	def("String", "strip()String", textMethod(func(s string) string { return strings.TrimFunc(s, unicode.IsSpace) }))
	def("String", "concat(String)String", func(f *frame, a []value) value {
		f.step((len(a[0].str()) + len(notNull(f, a[1]))) / 64)
		return f.newString(a[0].str() + notNull(f, a[1]))
	})
	def("String", "indexOf(String)int", func(f *frame, a []value) value {
		return search(f, a[0].str(), notNull(f, a[1]), 0)
	})
	def("String", "indexOf(String,int)int", func(f *frame, a []value) value {
		return search(f, a[0].str(), notNull(f, a[1]), a[2].n)
	})
	def("String", "indexOf(int)int", func(f *frame, a []value) value {
		return search(f, a[0].str(), string(rune(a[1].n)), 0)
	})
	def("String", "indexOf(int,int)int", func(f *frame, a []value) value {
		return search(f, a[0].str(), string(rune(a[1].n)), a[2].n)
	})
	last := func(f *frame, s, sought string) value {
		f.step(len(s)/16 + 1)
		i := strings.LastIndex(s, sought)
		if i < 0 {
			return ofInt(-1)
		}
		return ofInt(int64(units(s[:i])))
	}
	def("String", "lastIndexOf(String)int", func(f *frame, a []value) value {
		return last(f, a[0].str(), notNull(f, a[1]))
	})
	def("String", "lastIndexOf(int)int", func(f *frame, a []value) value {
		return last(f, a[0].str(), string(rune(a[1].n)))
	})
	for name, do := range map[string]func(s, t string) bool{"contains": strings.Contains,
		"startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix,
		"contentEquals": func(s, t string) bool { return s == t }} {
		def("String", name+"(CharSequence)boolean", func(f *frame, a []value) value {
			f.step(len(a[0].str())/16 + 1)
			return ofBool(do(a[0].str(), notNull(f, a[1])))
		})
	}
	def("String", "equalsIgnoreCase(String)boolean", func(f *frame, a []value) value {
		s, ok := a[1].r.(string)
		f.text(a[0].str()[:min(len(s), len(a[0].str()))])
		return ofBool(ok && strings.EqualFold(a[0].str(), s))
	})
	def("String", "compareTo(String)int", func(f *frame, a []value) value {
		return f.compare(a[0].str(), notNull(f, a[1]))
	})
	def("String", "compareToIgnoreCase(String)int", func(f *frame, a []value) value {
		s, t := a[0].str(), notNull(f, a[1])
		f.step((len(s) + len(t)) / 4)
		f.alloc(len(s) + len(t))
		return f.compare(strings.ToLower(s), strings.ToLower(t))
	})
	replace := func(f *frame, s, old, by string) value {
		f.step(len(s)/16 + 1)
		n := strings.Count(s, old)
		if len(s)+n*(len(by)-len(old)) > stringMax {
			panic(exhausted{what: "a string of more than 2 MiB"})
		}
		f.step(len(s)/16 + 2*n)
		return f.newString(strings.ReplaceAll(s, old, by))
	}
	def("String", "replace(char,char)String", func(f *frame, a []value) value {
		return replace(f, a[0].str(), text(a[1], kChar), text(a[2], kChar))
	})
	def("String", "replace(CharSequence,CharSequence)String", func(f *frame, a []value) value {
		return replace(f, a[0].str(), notNull(f, a[1]), notNull(f, a[2]))
	})
	def("String", "repeat(int)String", func(f *frame, a []value) value {
		s := a[0].str()
		if a[1].n < 0 {
			throw("IllegalArgumentException", "count is negative: %d", a[1].n)
		}
		if int64(len(s))*a[1].n > stringMax {
			panic(exhausted{what: "a string of more than 2 MiB"})
		}
		return f.newString(strings.Repeat(s, int(a[1].n)))
	})
	for _, t := range []string{"int", "long", "float", "double", "boolean", "char", "Object"} {
		k := kRef
		if p := primitiveTypes[t]; p != nil {
			k = p.kind
		}
		def("String", "static valueOf("+t+")String", func(f *frame, a []value) value {
			if k == kRef {
				return f.newString(f.string(a[0].r))
			}
			return f.newString(text(a[0], k))
		})
	}
	def("String", "static format(String,Object...)String", func(f *frame, a []value) value {
		return f.newString(f.format(notNull(f, a[0]), a[1].r.(*list).elems))
	})
	def("String", "static join(CharSequence,Iterable)String", func(f *frame, a []value) value {
		return f.newString(joinAll(f, notNull(f, a[0]), elements(a[1].r)))
	})
	def("String", "static join(CharSequence,Object...)String", func(f *frame, a []value) value {
		return f.newString(joinAll(f, notNull(f, a[0]), a[1].r.(*list).elems))
	})
	defPatterns()
	defBuilders()
}

func joinAll(f *frame, between string, elems []any) string {
	var b strings.Builder
	for i, e := range elems {
		if i > 0 {
			b.WriteString(between)
		}
		s := f.string(e)
		f.alloc(2 * (len(s) + len(between)))
		b.WriteString(s)
		f.step(1)
		if b.Len() > stringMax {
			panic(exhausted{what: "a string of more than 2 MiB"})
		}
	}
	return b.String()
}

func defBuilders() {
	for _, class := range []string{"StringBuilder", "StringBuffer"} {
		at := func(v value) *builder { return v.r.(*builder) }
		add := func(f *frame, b *builder, s string) {
			f.alloc(len(s))
			if b.b = append(b.b, s...); len(b.b) > stringMax {
				panic(exhausted{what: "a string of more than 2 MiB"})
			}
		}
		def(class, "new()"+class, func(f *frame, _ []value) value {
			f.alloc(64)
			return ofRef(&builder{})
		})
		def(class, "new(int)"+class, func(f *frame, _ []value) value {
			f.alloc(64)
			return ofRef(&builder{})
		})
		def(class, "new(String)"+class, func(f *frame, a []value) value {
			b := &builder{}
			add(f, b, notNull(f, a[0]))
			return ofRef(b)
		})
		for _, t := range []string{"int", "long", "float", "double", "boolean", "char", "Object"} {
			k := kRef
			if p := primitiveTypes[t]; p != nil {
				k = p.kind
			}
			def(class, "append("+t+")"+class, func(f *frame, a []value) value {
				if k == kRef {
					add(f, at(a[0]), f.string(a[1].r))
				} else {
					add(f, at(a[0]), text(a[1], k))
				}
				return a[0]
			})
		}
		def(class, "length()int", func(f *frame, a []value) value {
			f.step(len(at(a[0]).b) / 64)
			return ofInt(f.units(string(at(a[0]).b)))
		})
		def(class, "charAt(int)char", func(f *frame, a []value) value {
			f.step(len(at(a[0]).b) / 64)
			return charAt(f, string(at(a[0]).b), a[1].n, "index ")
		})
		def(class, "reverse()"+class, func(f *frame, a []value) value {
			r := []rune(string(at(a[0]).b))
			f.step(len(r) / 8)
			f.alloc(4 * len(r))
			for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
				r[i], r[j] = r[j], r[i]
			}
			at(a[0]).b = []byte(string(r))
			return a[0]
		})
		def(class, "setLength(int)void", func(f *frame, a []value) value {
			s := string(at(a[0]).b)
			f.step(len(s) / 16)
			if n := f.units(s); a[1].n < 0 || a[1].n > n {
				throw("IndexOutOfBoundsException", "%d", a[1].n)
			}
			at(a[0]).b = []byte(slice(s, 0, int(a[1].n)))
			return value{}
		})
		def(class, "deleteCharAt(int)"+class, func(f *frame, a []value) value {
			s := string(at(a[0]).b)
			f.alloc(len(s))
			n := f.units(s)
			checkRange(a[1].n, a[1].n+1, n)
			at(a[0]).b = []byte(slice(s, 0, int(a[1].n)) + slice(s, int(a[1].n)+1, int(n)))
			return a[0]
		})
		def(class, "insert(int,Object)"+class, func(f *frame, a []value) value {
			f.alloc(2 * len(at(a[0]).b))
			s := string(at(a[0]).b)
			n := f.units(s)
			checkRange(a[1].n, n, n)
			at(a[0]).b = nil
			add(f, at(a[0]), slice(s, 0, int(a[1].n))+f.string(a[2].r)+slice(s, int(a[1].n), int(n)))
			return a[0]
		})
	}
}
