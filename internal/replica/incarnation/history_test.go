// SPDX-License-Identifier: Apache-2.0

package incarnation

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// directory is a data directory with rows and a log. directory can be copied.
type directory struct {
	rows  map[string][]byte
	label []byte
}

func (d *directory) Get(_ uint32, sub []byte) ([]byte, error) { return d.rows[string(sub)], nil }

func (d *directory) Set(_ uint32, sub, value []byte) error {
	if d.rows == nil {
		d.rows = map[string][]byte{}
	}
	d.rows[string(sub)] = bytes.Clone(value)
	return nil
}

func (d *directory) Label() ([]byte, error)      { return d.label, nil }
func (d *directory) SetLabel(label []byte) error { d.label = bytes.Clone(label); return nil }

func (d *directory) copied() *directory {
	return &directory{rows: maps.Clone(d.rows), label: bytes.Clone(d.label)}
}

var owner = []byte("node")

// start starts a directory and returns its history as other nodes receive it.
func (d *directory) start(t *testing.T) *History {
	t.Helper()
	o, err := Open(d)
	if err == nil {
		err = o.Begin(owner, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := Decode(o.History.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return &l
}

var node = [16]byte{1}

func accepts(t *testing.T, w *PeerHistory, l *History, recorded Start) bool {
	t.Helper()
	ok, err := w.Accepts(node, l, recorded)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func saw(t *testing.T, w *PeerHistory, l *History) {
	t.Helper()
	if err := w.Record(node, l); err != nil {
		t.Fatal(err)
	}
}

// TestRestarts checks that peers accept a directory after up to StartsMax starts that no peer has recorded. Peers must
// also accept the same start repeatedly.
func TestRestarts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var d directory
		other := &directory{}
		w := NewPeerHistory(other)
		recorded := Start{}
		for range rapid.IntRange(1, 8).Draw(r, "times") {
			var l *History
			for range rapid.IntRange(1, StartsMax-1).Draw(r, "starts") {
				l = d.start(t)
			}
			for range 2 {
				if !accepts(t, w, l, recorded) {
					r.Fatalf("start %d is rejected", l.Number)
				}
				saw(t, w, l)
			}
			switch rapid.IntRange(0, 2).Draw(r, "the witness") {
			case 1: // the directory is restarted
				w = NewPeerHistory(other)
			case 2: // another start
				other = &directory{}
				recorded, w = l.Newest(), NewPeerHistory(other)
			}
		}
	})
}

// TestCopyIsRejected starts both a directory and its copy. The test checks that only the directory that peers recorded
// first is accepted, even if the other directory starts repeatedly. An earlier state must be rejected permanently,
// even by peers that have only a stored record.
func TestCopyIsRejected(t *testing.T) {
	for _, ahead := range []int{1, 2, 10} {
		var original directory
		for range 3 {
			original.start(t)
		}
		other := original.copied()
		var here directory
		w := NewPeerHistory(&here)
		var l *History
		for range ahead {
			l = original.start(t)
			if !accepts(t, w, l, Start{}) {
				t.Fatal("the original is rejected")
			}
			saw(t, w, l)
		}
		for n := range 2 * StartsMax {
			c := other.start(t)
			if accepts(t, NewPeerHistory(&here), c, Start{}) || accepts(t, NewPeerHistory(new(directory)), c,
				l.Newest()) {
				t.Fatalf("%d starts ahead: the copy is accepted at its start %d", ahead, n+1)
			}
		}
		if !accepts(t, w, original.start(t), l.Newest()) {
			t.Fatal("the original is rejected after its copy was rejected")
		}
	}
}

// TestPartsGoTogether checks which combinations of logs and rows are accepted (Y2).
func TestPartsGoTogether(t *testing.T) {
	var d, stranger directory
	d.start(t)
	stranger.start(t)
	one := d.copied()
	d.start(t)
	two := d.copied()
	d.start(t)
	for _, c := range []struct {
		name      string
		rows, log *directory
		want      error
	}{
		{"together", &d, &d, nil},
		{"a crash between log and rows", two, &d, nil},
		{"no log", &d, &directory{}, ErrOldLog},
		{"an older log", &d, two, ErrOldLog},
		{"older rows", one, &d, ErrOldRows},
		{"another directory's log, equally old", one, &stranger, ErrOtherLog},
		{"another node's log", one, &directory{label: append([]byte("edon"), one.label[4:]...)}, ErrOtherLog},
		{"no rows, which are a new node then", &directory{}, two, ErrOldRows},
		{"all new", &directory{}, &directory{}, nil},
	} {
		o, err := Open(c.rows.copied())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Begin(owner, c.log.copied()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestChangeOwner checks that ChangeOwner assigns a directory to another owner, is idempotent, and keeps the starts.
// The test also checks that Check rejects the old owner without recording a start.
func TestChangeOwner(t *testing.T) {
	var d directory
	d.start(t)
	other := []byte("else")
	for range 2 {
		if err := ChangeOwner(&d, owner, other); err != nil {
			t.Fatal(err)
		}
	}
	if err := ChangeOwner(&d, []byte("nobo"), owner); !errors.Is(err, ErrOtherLog) {
		t.Errorf("a stranger's log was renamed: %v", err)
	}
	o, err := Open(&d)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(owner, &d); !errors.Is(err, ErrOtherLog) {
		t.Errorf("the directory belongs to the old owner: %v", err)
	}
	if err := o.Check(other, &directory{}); !errors.Is(err, ErrLogMismatch) {
		t.Errorf("a directory without a log was accepted: %v", err)
	}
	if err := errors.Join(o.Check(other, &d), o.Begin(other, &d)); err != nil || o.History.Number != 2 {
		t.Errorf("start %d: %v", o.History.Number, err)
	}
}

// TestRefusalStays checks that a permanently rejected directory is still rejected when it is opened again.
func TestRefusalStays(t *testing.T) {
	var d directory
	d.start(t)
	o, err := Open(&d)
	if err == nil {
		err = o.Reject("its log lost entries")
	}
	if err != nil {
		t.Fatal(err)
	}
	if o, err = Open(&d); err != nil || o.RejectReason != "its log lost entries" || o.History.Number != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestMalformed checks that bytes that do not encode a history result in an error.
func TestMalformed(t *testing.T) {
	good := (&History{Number: 2, Marks: []uint64{7, 8}}).Append(nil)
	for n := 1; n < len(good); n++ {
		if l, err := Decode(good[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %+v, %v", good[:n], l, err)
		}
	}
	for _, l := range []History{{Number: 1, Marks: []uint64{1, 2}}, {Number: 3},
		{Number: 100, Marks: make([]uint64, StartsMax+1)}} {
		if _, err := Decode(l.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// TestNumbersGoUp checks that every start of a directory returns a number above all numbers used in earlier starts.
// This requires that no start lasted for many years.
func TestNumbersGoUp(t *testing.T) {
	d := &directory{}
	const given = 1 << 43
	for last := uint64(0); d.label == nil || last < 5*given; {
		first := d.start(t).FirstNumber()
		if first <= last {
			t.Fatalf("numbers begin at %d, and %d was given before", first, last)
		}
		last = first + given
	}
}
