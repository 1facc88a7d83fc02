// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"errors"
	"testing"
)

// TestFlippedBit proves that a frame with a flipped bit, wherever it is, is refused as soon as its bytes are there, and
// that the reader waits for no others: a wrong length would have it wait for as long as the connection lives.
func TestFlippedBit(t *testing.T) {
	good := AppendRaft(nil, []byte("twenty bytes of raft"))
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		frame, departed, err := NewRaftReader(bytes.NewReader(b), 64<<20).Next()
		if !errors.Is(err, ErrFrame) {
			t.Errorf("bit %d of byte %d: %q, %v, %v", bit%8, bit/8, frame, departed, err)
		}
	}
	for n := range len(good) {
		if frame, _, err := NewRaftReader(bytes.NewReader(good[:n]), 64<<20).Next(); err == nil ||
			errors.Is(err, ErrFrame) {
			t.Errorf("%d bytes of a frame: %q, %v", n, frame, err)
		}
	}
	if frame, departed, err := NewRaftReader(bytes.NewReader(good), 64<<20).Next(); err != nil || departed ||
		len(frame) != 20 {
		t.Errorf("%q, %v, %v", frame, departed, err)
	}
}
