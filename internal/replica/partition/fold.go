// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Folds knows what the programs of folds mean; see command.Fold. It is safe for concurrent use.
type Folds interface {
	// Fold makes a fold ready for one read. It does not wait. An error, whatever it is, has the rows passed on.
	Fold(ctx context.Context, c *command.Read) (Fold, error)
}

// Fold makes something of the rows of one read. It is used by one goroutine. An error of its visitor has the rows asked
// for again without a fold, so it is to be an error of the fold alone.
type Fold interface {
	// Partition and Row take in what they are given. Stop says that no more is needed, or that there is no room for
	// more; what Result returns then is of all that was taken in.
	command.Visitor
	// Result is what was made of it all. It is called once, at the end.
	Result() ([]byte, error)
	// Close releases what the fold holds. It is called once, after everything else.
	Close()
}

// ErrNoFold is what Folds.Fold may return to have the rows passed on.
var ErrNoFold = errors.New("the rows are not folded here")

// SetFolds says who knows what folds mean. Before that rows are passed on.
func (h *Host) SetFolds(f Folds) { h.folds.Store(&f) }

// The bounds of one fold. One that reaches them answers with what it has, and its reader goes on with another read.
const (
	// foldRowsMax and foldBytesMax are what is looked at at once, in rows or keys and in logical bytes. Where a
	// throughput is bounded it is less: what one read takes is paid for after it was done.
	foldRowsMax       = 8192
	foldBytesMax      = 16 << 20
	foldRowsBudgeted  = 500
	foldBytesBudgeted = 1 << 20
	// foldsMax is how many folds a node has at a time, of which each may keep some MiB. Beyond that rows are passed on.
	foldsMax = 64
)

// folding is the visitor of a read that is folded. It keeps the bounds, and how far the read has come.
type folding struct {
	fold   Fold
	to     command.Folder
	answer command.Folded
	failed bool
	// rows and bytes are how much may still be looked at.
	rows, bytes int64
}

// folded returns what folds the rows of a read for a visitor, nil if they are to be passed on.
func (r *Replica) folded(ctx context.Context, c *command.Read, v command.Visitor) *folding {
	if c.Fold == nil || c.Changes != nil || c.Index.Ordered() {
		return nil
	}
	to, ok := v.(command.Folder)
	known := r.host.folds.Load()
	if !ok || known == nil {
		return nil
	}
	var f *folding
	defer func() {
		if f == nil {
			r.host.folding.Add(-1)
		}
	}()
	if r.host.folding.Add(1) > foldsMax {
		return nil
	}
	fold, err := (*known).Fold(ctx, c)
	if err != nil {
		return nil
	}
	f = &folding{fold: fold, to: to, rows: foldRowsMax, bytes: foldBytesMax}
	if r.Budgeted() {
		f.rows, f.bytes = foldRowsBudgeted, foldBytesBudgeted
	}
	if n := int64(c.Fold.Rows); n > 0 {
		f.rows = min(f.rows, n)
	}
	return f
}

// tell passes the answer on. Nobody was given anything before.
func (f *folding) tell(m *meter) error {
	f.answer.Rows, f.answer.Bytes = m.Rows, m.Bytes
	if !f.failed {
		var err error
		if f.answer.Result, err = f.fold.Result(); err != nil {
			f.failed = true
		}
	}
	if f.failed {
		f.answer = command.Folded{Failed: true}
	}
	_, err := f.to.Folded(&f.answer)
	return err
}

// Partition implements command.Visitor.
func (f *folding) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	a := &f.answer
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	step, err := f.heed(f.fold.Partition(t, key, static))
	a.More = step == command.Stop
	return step, err
}

// Row implements command.Visitor.
func (f *folding) Row(clustering []byte, found *row.Row) (command.Step, error) {
	a := &f.answer
	a.Clustering = append(a.Clustering[:0], clustering...)
	step, err := f.heed(f.fold.Row(clustering, found))
	f.rows--
	f.bytes -= int64(len(a.Key) + len(clustering) + found.Size())
	if step == command.More && (f.rows <= 0 || f.bytes <= 0) {
		step = command.Stop
	}
	a.More = step == command.Stop
	return step, err
}

// heed takes note of a fold's answer: what it could not do others will.
func (f *folding) heed(step command.Step, err error) (command.Step, error) {
	if err != nil {
		f.failed = true
		return command.Stop, nil
	}
	return step, nil
}

// Passed implements command.Walker: a read that finds little ends, too.
func (f *folding) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	a := &f.answer
	if f.rows -= int64(looked); f.rows > 0 {
		return command.More, nil
	}
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	a.More, a.AfterPartition = true, true
	return command.Stop, nil
}
