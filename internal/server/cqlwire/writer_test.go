// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// read decodes output as a client does, and calls f for each envelope.
func read(b []byte, segments bool, c Compression, f func(h Header, body []byte) error) error {
	var a Assembler
	each := func(b []byte) error {
		for len(b) > 0 {
			h, body, size, ok, err := NextEnvelope(b, FrameSizeMax)
			if err != nil || !ok {
				return fmt.Errorf("envelope: ok %t, %w", ok, err)
			}
			if h.Flags&FlagCompressed != 0 {
				if body, err = DecompressBody(nil, body, c, FrameSizeMax); err != nil {
					return err
				}
			}
			if err := f(h, body); err != nil {
				return err
			}
			b = b[size:]
		}
		return nil
	}
	if !segments {
		return each(b)
	}
	for len(b) > 0 {
		s, size, ok, err := NextSegment(b, c == LZ4)
		if err != nil || !ok {
			return fmt.Errorf("segment: ok %t, %w", ok, err)
		}
		payload := s.Payload
		if s.UncompressedLen > 0 {
			if payload, err = DecompressSegment(nil, s); err != nil {
				return err
			}
		}
		b = b[size:]
		if s.SelfContained {
			if a.Open() {
				return fmt.Errorf("a self-contained segment inside a large envelope")
			}
			if err := each(payload); err != nil {
				return err
			}
			continue
		}
		_, _, done, err := a.Add(payload, FrameSizeMax)
		if err != nil {
			return err
		}
		if done {
			if err := each(a.Buf); err != nil {
				return err
			}
			a.Buf = a.Buf[:0]
		}
	}
	return nil
}

// TestWriterRoundTrip checks that envelopes of all sizes are decoded unchanged with every framing. The envelopes may
// or may not fit into a segment.
func TestWriterRoundTrip(t *testing.T) {
	for _, tc := range []struct {
		segments bool
		c        Compression
	}{{false, NoCompression}, {false, LZ4}, {false, Snappy}, {true, NoCompression}, {true, LZ4}} {
		for _, text := range []bool{false, true} {
			t.Run(fmt.Sprintf("segments=%t compression=%d text=%t", tc.segments, tc.c, text), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, 2))
				sizes := []int{0, 1, 100, 2047, 2048, SegmentPayloadMax - HeaderSize, SegmentPayloadMax - HeaderSize +
					1, 500_000, 3, 131_000, 200}
				for range 200 {
					sizes = append(sizes, rnd.IntN(1<<rnd.IntN(18)))
				}
				var bodies [][]byte
				var w Writer
				w.Buf = append(w.Buf, 0) // output does not start at offset 0
				w.SetFraming(tc.segments, tc.c)
				for i, n := range sizes {
					body := make([]byte, n)
					for j := range body {
						if body[j] = byte(rnd.Uint32()); text {
							body[j] = 'a' + body[j]%4
						}
					}
					bodies = append(bodies, body)
					w.Begin(Header{Version: V5, Response: true, Stream: int16(i), Opcode: OpResult})
					w.Buf = append(w.Buf, body...)
					w.End()
					if i%50 == 20 {
						w.Finish()
					}
					if i%7 == 0 {
						w.Begin(Header{Version: V5})
						w.Buf = append(w.Buf, "dropped"...)
						w.Cancel()
					}
				}
				w.Finish()
				i := 0
				err := read(w.Buf[1:], tc.segments, tc.c, func(h Header, body []byte) error {
					if int(h.Stream) != i || !h.Response || h.Opcode != OpResult {
						return fmt.Errorf("header %+v at %d", h, i)
					}
					if !bytes.Equal(body, bodies[i]) {
						return fmt.Errorf("body %d of %d bytes differs", i, len(bodies[i]))
					}
					i++
					return nil
				})
				if err != nil || i != len(bodies) {
					t.Fatal(i, err)
				}
			})
		}
	}
}

// TestWriterPacksSegments checks that a thousand small responses use the minimum number of segments.
func TestWriterPacksSegments(t *testing.T) {
	var w Writer
	w.SetFraming(true, NoCompression)
	for range 1000 {
		w.Begin(Header{Version: V5})
		w.Buf = append(w.Buf, make([]byte, 1000)...)
		w.End()
	}
	w.Finish()
	n := 0
	for b := w.Buf; len(b) > 0; n++ {
		_, size, ok, err := NextSegment(b, false)
		if !ok || err != nil {
			t.Fatal(err)
		}
		b = b[size:]
	}
	if want := (1000*1009 + 129*1009 - 1) / (129 * 1009); n != want {
		t.Fatalf("%d segments, want %d", n, want)
	}
}

// TestSegmentChecksums checks that the CRC24 table and the bitwise definition have the same result. It also compares
// one segment byte by byte with a known correct segment.
func TestSegmentChecksums(t *testing.T) {
	bitwise := func(v uint64, n int) uint32 {
		c := uint32(crc24Init)
		for ; n > 0; n-- {
			c ^= uint32(v&0xff) << 16
			v >>= 8
			for range 8 {
				if c <<= 1; c&0x1000000 != 0 {
					c ^= crc24Poly
				}
			}
		}
		return c
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		v := rnd.Uint64() & (1<<40 - 1)
		if crc24(v&0xffffff, 3) != bitwise(v&0xffffff, 3) || crc24(v, 5) != bitwise(v, 5) {
			t.Fatalf("crc24 of %x", v)
		}
	}
	for _, lz4 := range []bool{false, true} {
		for bit := range 8 * (SegmentSizeMax - SegmentPayloadMax) {
			var w Writer
			c := NoCompression
			if lz4 {
				c = LZ4
			}
			w.SetFraming(true, c)
			w.Begin(Header{Version: V5, Opcode: OpReady})
			w.End()
			w.Finish()
			if bit >= 8*len(w.Buf) {
				break
			}
			w.Buf[bit/8] ^= 1 << (bit % 8)
			if _, _, ok, err := NextSegment(w.Buf, lz4); ok || err == nil {
				t.Fatalf("a flipped bit %d was not noticed", bit)
			}
		}
	}
}

// TestDecompressLies checks input that falsely declares a huge size. A decoder must not allocate memory for this size.
func TestDecompressLies(t *testing.T) {
	for _, tc := range []struct {
		c    Compression
		body []byte
	}{
		{LZ4, []byte{0x0f, 0xff, 0xff, 0xff, 1, 2, 3}},
		{Snappy, []byte{0xff, 0xff, 0xff, 0x7f, 1}},
	} {
		n := testing.AllocsPerRun(1, func() {
			if out, err := DecompressBody(nil, tc.body, tc.c, FrameSizeMax); err == nil || cap(out) > 1<<20 {
				t.Fatal("the damaged data was accepted")
			}
		})
		if n > 5 {
			t.Fatal(n)
		}
	}
	if _, err := DecompressBody(nil, []byte{1, 0, 0, 0, 0}, LZ4, 100); err == nil {
		t.Fatal("the limit does not hold")
	}
}

func FuzzFrames(f *testing.F) {
	for _, c := range []Compression{NoCompression, LZ4} {
		var w Writer
		w.SetFraming(true, c)
		for _, n := range []int{10, 3000} {
			w.Begin(Header{Version: V5, Opcode: OpQuery})
			w.Buf = append(w.Buf, make([]byte, n)...)
			w.End()
		}
		w.Finish()
		f.Add(w.Buf, true, byte(c))
		f.Add(w.Buf, false, byte(c))
	}
	f.Fuzz(func(t *testing.T, b []byte, segments bool, c byte) {
		// Reading must end without a panic, and all results must be within the input.
		total := 0
		_ = read(b, segments, Compression(c%3), func(_ Header, body []byte) error {
			total += len(body)
			return nil
		})
		_, _ = DecompressBody(nil, b, Compression(c%3), 1<<20)
	})
}
