// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"strings"
	"testing"
)

// TestChunks checks that a chunked body is decoded regardless of how its bytes arrive. Extensions and trailers must be
// dropped. The bytes after the body must not be consumed.
func TestChunks(t *testing.T) {
	const text = "3\r\nabc\r\nA;x=\"y\" \r\n0123456789\r\n1 ;z\r\n\n\r\n000\r\nT: a\r\nU:\r\n\r\nGET"
	for step := 1; step <= len(text); step++ {
		var b Body
		var out []byte
		begin, end, ok := 0, 0, false
		for !ok && end < len(text) {
			end = min(end+step, len(text))
			n, err := 0, error(nil)
			if out, n, ok, err = b.Take(out, []byte(text[begin:end]), 14); err != nil {
				t.Fatalf("in steps of %d: %v", step, err)
			}
			begin += n
		}
		if !ok || string(out) != "abc0123456789\n" || text[begin:] != "GET" {
			t.Fatalf("in steps of %d: %v %q, then %q", step, ok, out, text[begin:])
		}
	}
}

// TestMalformedChunks checks that Take rejects ambiguous chunks, chunks that are too large, and chunks with lines that
// are too long.
func TestMalformedChunks(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{
		{"1\nx\r\n0\r\n\r\n", errLineEnd},
		{"1\r\nx\n0\r\n\r\n", errLineEnd},
		{"1\r\nxy\r\n0\r\n\r\n", errChunkEnd},
		{"\r\n", errChunk},
		{"0x1\r\nx\r\n", errChunk},
		{" 1\r\nx\r\n", errChunk},
		{"1 \r\nx\r\n", errChunk},
		{"-1\r\nx\r\n", errChunk},
		{"+1\r\nx\r\n", errChunk},
		{"g\r\nx\r\n", errChunk},
		{";\r\nx\r\n", errChunk},
		{"1;\x01\r\nx\r\n", errChunk},
		{"1;a\rb\r\nx\r\n", errChunk},
		{"fffffffffffffffff\r\n", errChunk},
		{"5\r\n", ErrTooLarge},
		{"4\r\nabcd\r\n1\r\n", ErrTooLarge},
		{"fffffffffffffff\r\n", ErrTooLarge},
		{"1;" + strings.Repeat("x", ChunkLineMax), errChunk},
		{"0\r\nT\r\n\r\n", errName},
		{"0\r\n T: x\r\n\r\n", errName},
		{"0\r\nT: \x00\r\n\r\n", errName},
		{"0\r\nT: x\n\r\n", errLineEnd},
		{"0\r\n" + strings.Repeat("T: x\r\n", trailersMax+1) + "\r\n", errTrailers},
	} {
		var b Body
		if _, _, _, err := b.Take(nil, []byte(c.text), 4); err != c.want {
			t.Errorf("%q: %v, want %v", c.text, err, c.want)
		}
	}
}
