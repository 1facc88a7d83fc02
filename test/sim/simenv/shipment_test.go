// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"bytes"
	"io"
	"testing"
)

// TestSnapshotOverBrokenConnections checks that a snapshot arrives unchanged although its connections break and flip
// bits. Each connection must resume where the previous connection ended.
func TestSnapshotOverBrokenConnections(t *testing.T) {
	w := New(1, 2)
	w.Net.Rough = Rough{Breaks: 5, Flips: 5}
	for size := range 40 {
		data := bytes.Repeat([]byte("snapshot"), size*size)
		s := w.Net.shipment(headed{data[:size], bytes.NewReader(data[size:])}, int64(len(data)),
			func() bool { return false })
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, data) || len(w.Failures) > 0 {
			t.Fatalf("%d bytes of %d: %v, %v", len(got), len(data), err, w.Failures)
		}
	}
	if w.Faults.Breaks == 0 || w.Faults.Flips == 0 {
		t.Fatalf("%+v: the test checks nothing", w.Faults)
	}
}

// TestSnapshotOfASenderThatIsGone checks that the reader gets an error when the sender is gone. The reader must not
// treat the interruption as the end of the snapshot.
func TestSnapshotOfASenderThatIsGone(t *testing.T) {
	w := New(1, 2)
	gone := false
	s := w.Net.shipment(bytes.NewReader(make([]byte, 10*chunkBytes)), 10*chunkBytes, func() bool { return gone })
	if _, err := io.ReadFull(s, make([]byte, 5*chunkBytes)); err != nil {
		t.Fatal(err)
	}
	gone = true
	if _, err := io.ReadAll(s); err == nil {
		t.Fatal("it ended well")
	}
}
