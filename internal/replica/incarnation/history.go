// SPDX-License-Identifier: Apache-2.0

// Package incarnation distinguishes the data directory of a node from its copies and from its own earlier states.
//
// Raft requires that a node store its promises, such as its votes. A copied directory, a directory restored to an
// earlier state, or a directory without its log may lack some of these promises. Each start of a directory therefore
// generates a random mark and stores it with the marks of previous starts:
//
//	start 7 on disk: marks 7 6 5 4 ...      another node saw: start 6, its mark    6 is in the list: the directory continued from there
//	a copy of start 5 is started: 6' 5 4 ...                                       6' differs from 6: not the directory that was seen
//
// Guarantees:
//
//   - (Y1) A peer that has seen an earlier start of a directory accepts the directory only if the directory's history
//     contains this start. It therefore rejects a copy or an earlier state of a directory.
//   - (Y2) The rows and the log of a directory match. A log that is missing, belongs to another directory, or is older
//     than the rows is rejected and never recreated.
//
// The package cannot detect that a directory has been restored to an earlier state of the newest start.
//
// The package stores the history in the row store and the newest start in the log. Start reading at Open.
package incarnation

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Start is one start of a data directory. It consists of a number, counted from 1, and a random mark. If Number is 0,
// the directory has not been started.
type Start struct{ Number, Mark uint64 }

// History holds the starts of a data directory. The zero value belongs to a directory that has never been started as a
// member of a cluster.
type History struct {
	// Number is the number of the newest start. Marks holds the marks of up to StartsMax starts, newest first.
	Number uint64
	Marks  []uint64
}

// StartsMax is the number of starts that a directory remembers. A peer that has seen only older starts cannot
// distinguish the directory from a copy.
const StartsMax = 64

// ErrMalformed means that the bytes do not encode a History.
var ErrMalformed = errors.New("malformed start history")

// Newest returns the newest start.
func (l *History) Newest() Start {
	if l.Number == 0 {
		return Start{}
	}
	return Start{l.Number, l.Marks[0]}
}

// numbersBits is the number of bits for the sequence numbers of one start.
const numbersBits = 44

// FirstNumber returns the first sequence number that is reserved for the newest start. Later starts have higher
// numbers. FirstNumber returns 0 if the history is empty.
func (l *History) FirstNumber() uint64 { return l.Number << numbersBits }

// Includes reports whether the history includes s. It returns true if s is zero.
func (l *History) Includes(s Start) bool {
	back := l.Number - s.Number
	return s.Number == 0 || s.Number <= l.Number && back < uint64(len(l.Marks)) && l.Marks[back] == s.Mark
}

// next returns the history with one more start.
func (l *History) next() History {
	var mark [8]byte
	_, _ = rand.Read(mark[:]) // Read never fails
	marks := append([]uint64{binary.BigEndian.Uint64(mark[:])}, l.Marks[:min(len(l.Marks), StartsMax-1)]...)
	return History{Number: l.Number + 1, Marks: marks}
}

// Append appends the encoded history to dst.
func (l *History) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(l.Number)
	w.Uint(uint64(len(l.Marks)))
	for _, mark := range l.Marks {
		w.Fixed(mark)
	}
	return w
}

// Decode decodes the output of Append. It decodes an empty slice as the zero History.
func Decode(src []byte) (History, error) {
	if len(src) == 0 {
		return History{}, nil
	}
	r := codec.NewReader(src, ErrMalformed)
	l := read(&r)
	if err := r.End(); err != nil {
		return History{}, err
	}
	return l, check(&l)
}

func read(r *codec.Reader) History {
	l := History{Number: r.Uint()}
	for range r.Count(8) {
		l.Marks = append(l.Marks, r.Fixed())
	}
	return l
}

func check(l *History) error {
	if n := uint64(len(l.Marks)); n > StartsMax || n > l.Number || n == 0 && l.Number > 0 {
		return ErrMalformed
	}
	return nil
}

// Rows stores the history. *storage.Store implements it.
type Rows interface {
	Get(id uint32, sub []byte) ([]byte, error)
	Set(id uint32, sub, value []byte) error
}

// Log stores the newest start. *raftlog.Store implements it.
type Log interface {
	Label() ([]byte, error)
	SetLabel(label []byte) error
}

// recordKey is the key of the history under keys.IdentityID.
var recordKey = []byte("lineage")

// Directory is the history of an open data directory.
type Directory struct {
	rows    Rows
	History History
	// RejectReason states why the directory must not be used. It is empty if the directory may be used.
	RejectReason string
}

// Open reads the history from the row store.
func Open(rows Rows) (*Directory, error) {
	d := &Directory{rows: rows}
	value, err := rows.Get(keys.IdentityID, recordKey)
	if err != nil || value == nil {
		return d, err
	}
	r := codec.NewReader(value, ErrMalformed)
	d.History = read(&r)
	d.RejectReason = r.Text()
	if err = r.End(); err == nil {
		err = check(&d.History)
	}
	return d, err
}

// HasLog reports whether the directory has had a log. If it returns true, a missing log must not be recreated.
func (d *Directory) HasLog() bool { return d.History.Number > 0 }

// These are the errors of Begin.
var (
	// ErrOtherLog means that the log belongs to another data directory.
	ErrOtherLog = errors.New("it belongs to another data directory")
	// ErrOldLog means that the log is older than the rows.
	ErrOldLog = errors.New("it was restored to an earlier state")
	// ErrOldRows means that the rows are older than the log.
	ErrOldRows = errors.New("the rest of the data directory was restored to an earlier state")
)

// Begin checks that the log and the rows match, and then durably records a new start in both. owner identifies the
// directory and has a fixed length. Begin writes the log first, so a log may be one start ahead of the rows after a
// crash.
func (d *Directory) Begin(owner []byte, log Log) error {
	label, err := log.Label()
	if err != nil {
		return err
	}
	if err := d.checkLabel(owner, label); err != nil {
		return err
	}
	next := d.History.next()
	newest := next.Newest()
	label = binary.BigEndian.AppendUint64(bytes.Clone(owner), newest.Number)
	if err := log.SetLabel(binary.BigEndian.AppendUint64(label, newest.Mark)); err != nil {
		return err
	}
	d.History = next
	return d.save()
}

func (d *Directory) checkLabel(owner, label []byte) error {
	if label == nil {
		if d.HasLog() {
			return ErrOldLog
		}
		return nil
	}
	if len(label) != len(owner)+16 || !bytes.HasPrefix(label, owner) {
		return ErrOtherLog
	}
	at := Start{binary.BigEndian.Uint64(label[len(owner):]), binary.BigEndian.Uint64(label[len(owner)+8:])}
	switch newest := d.History.Newest(); {
	case at == newest, at.Number == newest.Number+1:
		return nil
	case at.Number == newest.Number:
		return ErrOtherLog
	case at.Number < newest.Number:
		return ErrOldLog
	}
	return ErrOldRows
}

// ErrLogMismatch means that the log and the rows do not match, or that the directory has never been started in a
// cluster.
var ErrLogMismatch = errors.New("the Raft log does not match the data")

// Check returns nil if the log and the rows of a directory match. Check does not modify the directory.
func (d *Directory) Check(owner []byte, log Log) error {
	label, err := log.Label()
	if err == nil && (label == nil || !d.HasLog()) {
		err = ErrLogMismatch
	}
	if err == nil {
		err = d.checkLabel(owner, label)
	}
	return err
}

// ChangeOwner assigns a log to another owner when the directory moves to another cluster. The history of starts
// continues. ChangeOwner is idempotent.
func ChangeOwner(log Log, was, owner []byte) error {
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

// Reject durably records that the directory must not be used again. If why is empty, Reject revokes the rejection.
func (d *Directory) Reject(why string) error {
	d.RejectReason = why
	return d.save()
}

func (d *Directory) save() error {
	w := codec.Writer(d.History.Append(nil))
	w.Text(d.RejectReason)
	if err := d.rows.Set(keys.IdentityID, recordKey, w); err != nil {
		return fmt.Errorf("cannot store the start history of the data directory: %w", err)
	}
	return nil
}
