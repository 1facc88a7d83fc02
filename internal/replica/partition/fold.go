// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Folds interprets the programs of folds; see command.Fold. It must be safe for concurrent use.
type Folds interface {
	// Fold prepares a fold for one read. It must not block. If it returns any error, the rows are passed on instead.
	Fold(ctx context.Context, c *command.Read) (Fold, error)
}

// Fold aggregates the rows of one read. One goroutine uses it. An error of its visitor causes the rows to be requested
// again without a fold, so it must be an error of the fold alone.
type Fold interface {
	// Partition and Row process rows. Stop means that no more rows are needed or that no more rows fit. Result then
	// covers all processed rows.
	command.Visitor
	// Result returns the aggregate. It is called once, at the end.
	Result() ([]byte, error)
	// Charge returns the price of the work so far beyond the price of reading the rows.
	Charge() ru.Units
	// Close releases the resources of the fold. It is called once, last.
	Close()
}

// ErrNoFold can be returned by Folds.Fold to have the rows passed on.
var ErrNoFold = errors.New("the rows are not folded here")

// SetFolds sets the interpreter of folds. Before that, rows are passed on.
func (h *Host) SetFolds(f Folds) { h.folds.Store(&f) }

// The limits of one fold. A fold that reaches them returns its result so far, and its reader continues with another
// read.
const (
	// foldRowsMax and foldBytesMax bound the rows or keys, and the logical bytes, of one fold. If the throughput is
	// limited, the limits are lower, because a read is charged after it is done.
	foldRowsMax       = 8192
	foldBytesMax      = 16 << 20
	foldRowsBudgeted  = 500
	foldBytesBudgeted = 1 << 20
	// foldsMax bounds the concurrent folds of a node, each of which may use several MiB. Above it, rows are passed on.
	foldsMax = 64
)

// folding is the visitor of a read with a fold. It enforces the limits and tracks the position of the read.
type folding struct {
	fold   Fold
	to     command.PushdownVisitor
	answer command.PushdownResult
	failed bool
	// rows and bytes are the remaining limits.
	rows, bytes int64
}

// newFolding returns a folding for a read, or nil if the rows must be passed on.
func (r *Replica) newFolding(ctx context.Context, c *command.Read, v command.Visitor) *folding {
	if c.Pushdown == nil || c.Changes != nil || c.Index.Ordered() {
		return nil
	}
	to, ok := v.(command.PushdownVisitor)
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
	if n := int64(c.Pushdown.Rows); n > 0 {
		f.rows = min(f.rows, n)
	}
	return f
}

// tell passes on the result. Nothing was passed on before.
func (f *folding) tell(m *readMeter) error {
	f.answer.Rows, f.answer.Bytes = m.Rows, m.Bytes
	if !f.failed {
		var err error
		if f.answer.Result, err = f.fold.Result(); err != nil {
			f.failed = true
		}
	}
	if f.failed {
		f.answer = command.PushdownResult{Failed: true}
	}
	_, err := f.to.PushedDown(&f.answer)
	return err
}

// Partition implements command.Visitor.
func (f *folding) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	a := &f.answer
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	step, err := f.checkStep(f.fold.Partition(t, key, static))
	a.More = step == command.Stop
	return step, err
}

// Row implements command.Visitor.
func (f *folding) Row(clustering []byte, found *row.Row) (command.Step, error) {
	a := &f.answer
	a.Clustering = append(a.Clustering[:0], clustering...)
	step, err := f.checkStep(f.fold.Row(clustering, found))
	f.rows--
	f.bytes -= int64(len(a.Key) + len(clustering) + found.Size())
	if step == command.More && (f.rows <= 0 || f.bytes <= 0) {
		step = command.Stop
	}
	a.More = step == command.Stop
	return step, err
}

// checkStep records an error of the fold. The rows are then processed elsewhere.
func (f *folding) checkStep(step command.Step, err error) (command.Step, error) {
	if err != nil {
		f.failed = true
		return command.Stop, nil
	}
	return step, nil
}

// Passed implements command.Walker: a read that finds few rows also ends at the limits.
func (f *folding) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	a := &f.answer
	if f.rows -= int64(looked); f.rows > 0 {
		return command.More, nil
	}
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	a.More, a.AfterPartition = true, true
	return command.Stop, nil
}
