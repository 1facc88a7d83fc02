// SPDX-License-Identifier: Apache-2.0

// Package lineage tells the data directory of a node from its copies and from its own past.
//
// Raft needs a node to remember what it has promised. A directory that was copied, put back to an earlier state, or
// whose log was lost, has forgotten, and does not know that it has. So each start of a directory draws a mark and keeps
// those of the starts before it:
//
//	start 7 on disk: marks 7 6 5 4 ...      another node saw: start 6, its mark    6 is in the list: the directory has gone on from there
//	a copy of start 5 is started: 6' 5 4 ...                                       6' is not 6: it is not the one that was seen
//
// Guarantees: (Y1) a directory is accepted by whoever has seen an earlier start of it only if that start is in its
// list: a copy or an earlier state that is started after its original was, or before it and next to it, is refused,
// however often it is tried; (Y2) rows and log of one directory go together: a log that is missing, of another
// directory, or older than the rows by a start or more is refused, and never made anew. What cannot be seen is a
// directory that is put back to an earlier moment of its newest start.
//
// The package keeps the list in the store of rows and its newest entry in the log, and says what fits. Start at Open.
package lineage

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Start is one start of a data directory: its number, from 1, and the mark that was drawn for it. Number 0 is none.
type Start struct{ Number, Mark uint64 }

// Lineage are the starts of a data directory. The zero value is that of a directory which was never started as a member
// of a cluster.
type Lineage struct {
	// Number is that of the newest start, Marks are its mark and those of the starts before it, newest first, Kept at
	// most.
	Number uint64
	Marks  []uint64
}

// Kept is how many starts a directory remembers. A node that has seen none of so many cannot tell it from a copy any
// more.
const Kept = 64

// ErrMalformed says that bytes are no lineage.
var ErrMalformed = errors.New("malformed lineage")

// Newest is the newest start.
func (l *Lineage) Newest() Start {
	if l.Number == 0 {
		return Start{}
	}
	return Start{l.Number, l.Marks[0]}
}

// numbersBits is how many numbers a start has, more than a node gives in years.
const numbersBits = 44

// FirstNumber is the first of the numbers that the newest start has for itself: those of later starts are higher,
// whatever the clock says. It is 0 for no start.
func (l *Lineage) FirstNumber() uint64 { return l.Number << numbersBits }

// Includes reports whether a start is one of those that the directory remembers. No start is.
func (l *Lineage) Includes(s Start) bool {
	back := l.Number - s.Number
	return s.Number == 0 || s.Number <= l.Number && back < uint64(len(l.Marks)) && l.Marks[back] == s.Mark
}

// next is the lineage with one start more.
func (l *Lineage) next() Lineage {
	var mark [8]byte
	_, _ = rand.Read(mark[:]) // never fails
	marks := append([]uint64{binary.BigEndian.Uint64(mark[:])}, l.Marks[:min(len(l.Marks), Kept-1)]...)
	return Lineage{Number: l.Number + 1, Marks: marks}
}

// Append appends the encoded lineage.
func (l *Lineage) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(l.Number)
	w.Uint(uint64(len(l.Marks)))
	for _, mark := range l.Marks {
		w.Fixed(mark)
	}
	return w
}

// Decode reads what Append wrote. No bytes are the zero Lineage.
func Decode(src []byte) (Lineage, error) {
	if len(src) == 0 {
		return Lineage{}, nil
	}
	r := codec.NewReader(src, ErrMalformed)
	l := read(&r)
	if err := r.End(); err != nil {
		return Lineage{}, err
	}
	return l, check(&l)
}

func read(r *codec.Reader) Lineage {
	l := Lineage{Number: r.Uint()}
	for range r.Count(8) {
		l.Marks = append(l.Marks, r.Fixed())
	}
	return l
}

func check(l *Lineage) error {
	if n := uint64(len(l.Marks)); n > Kept || n > l.Number || n == 0 && l.Number > 0 {
		return ErrMalformed
	}
	return nil
}

// Rows is where the list is kept; *storage.Store is one.
type Rows interface {
	Get(id uint32, sub []byte) ([]byte, error)
	Set(id uint32, sub, value []byte) error
}

// Log is where the newest start is kept; *raftlog.Store is one.
type Log interface {
	Label() ([]byte, error)
	SetLabel(label []byte) error
}

// recordKey is that of the list, under keys.IdentityID.
var recordKey = []byte("lineage")

// Directory is the lineage of an open data directory.
type Directory struct {
	rows    Rows
	Lineage Lineage
	// Refused, if not empty, says why the directory is not to be used any more.
	Refused string
}

// Open reads what the rows know of the directory's starts.
func Open(rows Rows) (*Directory, error) {
	d := &Directory{rows: rows}
	value, err := rows.Get(keys.IdentityID, recordKey)
	if err != nil || value == nil {
		return d, err
	}
	r := codec.NewReader(value, ErrMalformed)
	d.Lineage = read(&r)
	d.Refused = r.Text()
	if err = r.End(); err == nil {
		err = check(&d.Lineage)
	}
	return d, err
}

// Logged reports whether the directory has had a log: one that is missing must not be made anew.
func (d *Directory) Logged() bool { return d.Lineage.Number > 0 }

// Errors of Begin.
var (
	// ErrOtherLog: the log belongs to another data directory.
	ErrOtherLog = errors.New("it belongs to another data directory")
	// ErrOldLog: the log is older than the rows.
	ErrOldLog = errors.New("it was put back to an earlier state")
	// ErrOldRows: the rows are older than the log.
	ErrOldRows = errors.New("the rest of the data directory was put back to an earlier state")
)

// Begin checks that the log and the rows belong together and draws a new start, durable in both when it returns. owner
// names the directory, in bytes of constant length. In the log it is written first: one start more than in the rows is
// a crash in between.
func (d *Directory) Begin(owner []byte, log Log) error {
	label, err := log.Label()
	if err != nil {
		return err
	}
	if err := d.fits(owner, label); err != nil {
		return err
	}
	next := d.Lineage.next()
	newest := next.Newest()
	label = binary.BigEndian.AppendUint64(bytes.Clone(owner), newest.Number)
	if err := log.SetLabel(binary.BigEndian.AppendUint64(label, newest.Mark)); err != nil {
		return err
	}
	d.Lineage = next
	return d.save()
}

func (d *Directory) fits(owner, label []byte) error {
	if label == nil {
		if d.Logged() {
			return ErrOldLog
		}
		return nil
	}
	if len(label) != len(owner)+16 || !bytes.HasPrefix(label, owner) {
		return ErrOtherLog
	}
	at := Start{binary.BigEndian.Uint64(label[len(owner):]), binary.BigEndian.Uint64(label[len(owner)+8:])}
	switch newest := d.Lineage.Newest(); {
	case at == newest, at.Number == newest.Number+1:
		return nil
	case at.Number == newest.Number:
		return ErrOtherLog
	case at.Number < newest.Number:
		return ErrOldLog
	}
	return ErrOldRows
}

// ErrNotWhole: the log and the rows do not belong together, or the directory was never started in a cluster.
var ErrNotWhole = errors.New("the log of the replica sets does not go with the data")

// Check returns nil if the log and the rows of a directory that was started before belong together. It changes nothing.
func (d *Directory) Check(owner []byte, log Log) error {
	label, err := log.Label()
	if err == nil && (label == nil || !d.Logged()) {
		err = ErrNotWhole
	}
	if err == nil {
		err = d.fits(owner, label)
	}
	return err
}

// Rename gives a log another owner: the directory is of another cluster from now on, and its starts go on. It may be
// repeated.
func Rename(log Log, was, owner []byte) error {
	label, err := log.Label()
	if err != nil {
		return err
	}
	start, ok := bytes.CutPrefix(label, was)
	if !ok {
		start, ok = bytes.CutPrefix(label, owner)
	}
	if !ok || len(start) != 16 {
		return ErrOtherLog
	}
	return log.SetLabel(append(bytes.Clone(owner), start...))
}

// Refuse has the directory not be used again, durably; an empty text takes that back.
func (d *Directory) Refuse(why string) error {
	d.Refused = why
	return d.save()
}

func (d *Directory) save() error {
	w := codec.Writer(d.Lineage.Append(nil))
	w.Text(d.Refused)
	if err := d.rows.Set(keys.IdentityID, recordKey, w); err != nil {
		return fmt.Errorf("store the lineage of the data directory: %w", err)
	}
	return nil
}
