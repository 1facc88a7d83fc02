// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"
)

// frames contains one frame of each kind that has a payload.
func frames(t *testing.T) map[string][]byte {
	shipment, err := NewShipment(bytes.NewReader([]byte("a snapshot")), 10, 6).Connect()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"raft": AppendRaft(nil, []byte("twenty bytes of raft")), "depart": AppendDepart(nil),
		"request": AppendRequest(nil, 7, time.Second, 2, []byte("a request")),
		"cancel":  AppendCancel(nil, 7), "credit": AppendCredit(nil, 7),
		"page": AppendPage(nil, 7, []byte("a page")), "last": AppendLast(nil, 7, nil),
		"fail":  AppendFail(nil, 7, ErrBusy),
		"chunk": shipment[1], "end of a snapshot": shipment[len(shipment)-1],
	}
}

func read(b []byte) (Frame, error) { return NewReader(bytes.NewReader(b), 64<<20).Next() }

// TestFlippedBit checks that a frame with a flipped bit at any position is rejected as soon as its bytes have arrived.
// The reader must not wait for further bytes, because with a wrong length it could wait indefinitely.
func TestFlippedBit(t *testing.T) {
	for name, good := range frames(t) {
		for bit := range len(good) * 8 {
			b := bytes.Clone(good)
			b[bit/8] ^= 1 << (bit % 8)
			if frame, err := read(b); !errors.Is(err, ErrFrame) {
				t.Errorf("%s, bit %d of byte %d: %v, %v", name, bit%8, bit/8, frame, err)
			}
		}
		for n := range len(good) {
			if frame, err := read(good[:n]); err == nil || errors.Is(err, ErrFrame) {
				t.Errorf("%s, %d bytes of it: %v, %v", name, n, frame, err)
			}
		}
	}
}

// TestFrames checks that the reader returns the appended frames, and that a frame from another connection is rejected.
func TestFrames(t *testing.T) {
	all := frames(t)
	of := func(name string) Frame {
		f, err := read(all[name])
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if b, departed, err := of("raft").Raft(); string(b) != "twenty bytes of raft" || departed || err != nil {
		t.Errorf("%q, %v, %v", b, departed, err)
	}
	if b, departed, err := of("depart").Raft(); len(b) != 0 || !departed || err != nil {
		t.Errorf("%q, %v, %v", b, departed, err)
	}
	for name, want := range map[string]RequestFrame{
		"request": {ID: 7, Request: []byte("a request"), Left: time.Second, Ahead: 2},
		"cancel":  {ID: 7, Cancel: true}, "credit": {ID: 7, Credit: true},
	} {
		if got, err := of(name).Request(); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, want := range map[string]ResponseFrame{
		"page": {ID: 7, Data: []byte("a page")}, "last": {ID: 7, Data: []byte{}, End: io.EOF},
		"fail": {ID: 7, End: ErrBusy},
	} {
		got, err := of(name).HandleResponse()
		if !errors.Is(got.End, want.End) || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got.End = want.End; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name := range all {
		fits := 0
		if _, _, err := of(name).Raft(); err == nil {
			fits++
		}
		if _, err := of(name).Request(); err == nil {
			fits++
		}
		if _, err := of(name).HandleResponse(); err == nil {
			fits++
		}
		if _, err := NewShipment(nil, 0, 1).Take(of(name)); errors.Is(err, io.EOF) || errors.Is(err, ErrSnapshot) {
			fits++
		}
		if want := 1; fits != want && name != "chunk" {
			t.Errorf("%s is understood by %d connections", name, fits)
		}
	}
}
