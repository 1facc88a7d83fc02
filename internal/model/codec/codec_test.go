// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

var errTest = errors.New("malformed test")

// TestForms pins the encoding of each form. Stores and logs contain these encodings.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, want string
		write      func(w *Writer)
	}{
		{"byte", "ff", func(w *Writer) { w.Byte(255) }},
		{"raw", "6162", func(w *Writer) { w.Raw([]byte("ab")) }},
		{"uint", "00 7f 8001 ffffffffffffffffff01", func(w *Writer) {
			w.Uint(0)
			w.Uint(127)
			w.Uint(128)
			w.Uint(math.MaxUint64)
		}},
		{"int", "00 01 02 ffffffffffffffffff01", func(w *Writer) {
			w.Int(0)
			w.Int(-1)
			w.Int(1)
			w.Int(math.MinInt64)
		}},
		{"fixed", "0000000000000102", func(w *Writer) { w.Fixed(258) }},
		{"flag", "01 00", func(w *Writer) { w.Flag(true); w.Flag(false) }},
		{"bytes", "00 00 026162", func(w *Writer) { w.Bytes(nil); w.Bytes([]byte{}); w.Bytes([]byte("ab")) }},
		{"text", "00 026162", func(w *Writer) { w.Text(""); w.Text("ab") }},
		{"null", "00 01 036162", func(w *Writer) { w.Null(nil); w.Null([]byte{}); w.Null([]byte("ab")) }},
	} {
		var w Writer
		c.write(&w)
		want, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(c.want), []byte(" "), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w, want) {
			t.Errorf("%s: %x, want %s", c.name, []byte(w), c.want)
		}
	}
}

// TestRoundTrip checks that written values can be read. No prefix may be accepted.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Writer
		var steps []func(r *Reader) bool
		short := rapid.SliceOfN(rapid.Byte(), 0, 4)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			u, s, b := rapid.Uint64().Draw(t, "u"), rapid.Int64().Draw(t, "s"), short.Draw(t, "b")
			switch rapid.IntRange(0, 8).Draw(t, "form") {
			case 0:
				w.Uint(u)
				steps = append(steps, func(r *Reader) bool { return r.Uint() == u })
			case 1:
				w.Int(s)
				steps = append(steps, func(r *Reader) bool { return r.Int() == s })
			case 2:
				w.Fixed(u)
				steps = append(steps, func(r *Reader) bool { return r.Fixed() == u })
			case 3:
				w.Flag(u&1 == 1)
				steps = append(steps, func(r *Reader) bool { return r.Flag() == (u&1 == 1) })
			case 4:
				w.Bytes(b)
				steps = append(steps, func(r *Reader) bool { return bytes.Equal(r.Bytes(), b) })
			case 5:
				w.Text(string(b))
				steps = append(steps, func(r *Reader) bool { return r.Text() == string(b) })
			case 6:
				if u&1 == 1 {
					b = nil
				}
				w.Null(b)
				steps = append(steps, func(r *Reader) bool {
					v := r.Null()
					return bytes.Equal(v, b) && (v == nil) == (b == nil)
				})
			case 7:
				w.Int(int64(int32(s)))
				steps = append(steps, func(r *Reader) bool { return r.Int32() == int32(s) })
			case 8:
				w.Uint(uint64(uint32(u)))
				steps = append(steps, func(r *Reader) bool { return r.Uint32() == uint32(u) })
			}
		}
		r := NewReader(w, errTest)
		for i, step := range steps {
			if !step(&r) {
				t.Fatalf("step %d of %x", i, []byte(w))
			}
		}
		if err := r.End(); err != nil {
			t.Fatalf("%x: %v", []byte(w), err)
		}
		cut := rapid.IntRange(0, len(w)-1).Draw(t, "cut")
		r = NewReader(w[:cut], errTest)
		for _, step := range steps {
			step(&r)
		}
		if !errors.Is(r.End(), errTest) {
			t.Fatalf("%d bytes of %x were read", cut, []byte(w))
		}
	})
}

// TestRefusals checks that invalid values are rejected. All later reads must return zero, even if input remains.
func TestRefusals(t *testing.T) {
	long := bytes.Repeat([]byte{0xff}, 11)
	for _, c := range []struct {
		name string
		src  []byte
		read func(r *Reader) bool // reports whether the read value is not zero
	}{
		{"byte of nothing", nil, func(r *Reader) bool { return r.Byte() != 0 }},
		{"number without an end", long[:3], func(r *Reader) bool { return r.Uint() != 0 }},
		{"number above 64 bits", long, func(r *Reader) bool { return r.Uint() != 0 }},
		{"signed number above 64 bits", long, func(r *Reader) bool { return r.Int() != 0 }},
		{"number above its bound", []byte{9, 1}, func(r *Reader) bool { return r.UpTo(8) != 0 }},
		{"number above 32 bits", []byte{0x80, 0x80, 0x80, 0x80, 0x10, 1}, func(r *Reader) bool {
			return r.Uint32() != 0
		}},
		{"signed number above 32 bits", []byte{0x80, 0x80, 0x80, 0x80, 0x10, 1}, func(r *Reader) bool {
			return r.Int32() != 0
		}},
		{"fixed number of 7 bytes", make([]byte, 7), func(r *Reader) bool { return r.Fixed() != 0 }},
		{"flag", []byte{2, 1}, func(r *Reader) bool { return r.Flag() }},
		{"bytes", []byte{3, 1, 1}, func(r *Reader) bool { return r.Bytes() != nil }},
		{"null", []byte{4, 1, 1}, func(r *Reader) bool { return r.Null() != nil }},
		{"more items than bytes", []byte{3, 1, 1}, func(r *Reader) bool { return r.Count(1) != 0 }},
		{"more large items than bytes", []byte{2, 1, 1, 1}, func(r *Reader) bool { return r.Count(2) != 0 }},
		{"a caller's own", []byte{1, 1}, func(r *Reader) bool { r.Fail(); return false }},
	} {
		r := NewReader(c.src, errTest)
		if c.read(&r) {
			t.Errorf("%s: a value", c.name)
		}
		if !errors.Is(r.Err(), errTest) || !errors.Is(r.End(), errTest) || len(r.Rest()) > 0 {
			t.Errorf("%s: error %v, rest %x", c.name, r.Err(), r.Rest())
		}
		if r.Uint() != 0 || r.Byte() != 0 || r.Bytes() != nil {
			t.Errorf("%s: a value after it", c.name)
		}
	}
}

// TestViews checks that a returned slice shares the input's memory. Appending to the slice must not modify the input.
func TestViews(t *testing.T) {
	src := []byte{2, 'a', 'b', 'c'}
	r := NewReader(src, errTest)
	v := r.Bytes()
	if &v[0] != &src[1] {
		t.Error("a copy")
	}
	if _ = append(v, 'x'); src[3] != 'c' || string(r.Rest()) != "c" {
		t.Errorf("%q %q", src, r.Rest())
	}
}

// TestAllocations checks that neither reading nor writing into a slice with sufficient capacity allocates.
func TestAllocations(t *testing.T) {
	dst, key := make([]byte, 0, 100), []byte("key")
	if n := testing.AllocsPerRun(100, func() {
		w := Writer(dst)
		w.Uint(1 << 40)
		w.Bytes(key)
		w.Text("text")
		w.Null(nil)
		w.Fixed(7)
		r := NewReader(w, errTest)
		r.Uint()
		r.Bytes()
		r.Bytes()
		r.Null()
		r.Fixed()
		if r.End() != nil {
			t.Error("refused")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReader reads one input with a sequence of calls that another input selects. The test checks that the reader
// never panics, that the unread input never grows, and that no accepted count exceeds the input.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []byte("\x01\x80\x01\x00some input that is long enough for all"))
	f.Fuzz(func(t *testing.T, program, src []byte) {
		r := NewReader(src, errTest)
		for _, step := range program {
			before := len(r.Rest())
			took := 0
			switch step % 11 {
			case 0:
				r.Byte()
			case 1:
				r.Uint()
			case 2:
				r.Int()
			case 3:
				r.Fixed()
			case 4:
				r.Flag()
			case 5:
				took = len(r.Bytes())
			case 6:
				took = len(r.Null())
			case 7:
				took = r.Count(1 + int(step)/11)
			case 8:
				r.Uint32()
			case 9:
				r.Int32()
			case 10:
				took = len(r.Take(uint64(step)))
			}
			if after := len(r.Rest()); after > before || took > before || r.Err() != nil && (after > 0 || took > 0) {
				t.Fatalf("step %d: %d bytes before, %d after, %d taken, %v", step, before, after, took, r.Err())
			}
		}
	})
}
