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

// Aggregator executes the programs of aggregations; see command.Pushdown. Implementations must be safe for concurrent
// use.
type Aggregator interface {
	// Aggregate prepares the aggregation for one read. It must not block. If it returns an error, the replica returns
	// the rows instead of an aggregate.
	Aggregate(ctx context.Context, c *command.Read) (Aggregation, error)
}

// Aggregation aggregates the rows of one read. It need not be safe for concurrent use. If its visitor returns an error,
// the reader requests the rows again without an aggregation. The visitor must therefore return only errors of the
// aggregation.
type Aggregation interface {
	// Partition and Row process rows. They return Stop if the aggregation needs no more rows or has no space for more
	// rows.
	command.Visitor
	// Result returns the aggregate of all processed rows. It is called once, after the last row.
	Result() ([]byte, error)
	// Charge returns the price of the aggregation so far, excluding the price of reading the rows.
	Charge() ru.Units
	// Close releases the resources of the aggregation. It is called once, after all other methods.
	Close()
}

// ErrNoPushdown is returned by Aggregator.Aggregate if the replica must return the rows instead of an aggregate.
var ErrNoPushdown = errors.New("this replica does not aggregate the rows")

// SetAggregator sets the aggregator. Before this call, replicas do not aggregate rows.
func (e *extensions) SetAggregator(f Aggregator) { e.aggregator.Store(&f) }

// These are the limits of one aggregation. An aggregation that reaches a limit returns its current result, and its
// reader continues with another read.
const (
	// pushdownRowsMax and pushdownBytesMax are the maximum number of rows or keys and the maximum number of logical
	// bytes of one aggregation. If the throughput is limited, the limits are lower, because a read is charged only
	// after it has finished.
	pushdownRowsMax       = 8192
	pushdownBytesMax      = 16 << 20
	pushdownRowsBudgeted  = 500
	pushdownBytesBudgeted = 1 << 20
	// pushdownsMax is the maximum number of concurrent aggregations on a node. Each aggregation may use several MiB.
	// All other reads return rows without aggregation.
	pushdownsMax = 64
)

// pushdown is the visitor of a read with pushdown. It enforces the limits and tracks the position of the read.
type pushdown struct {
	aggregation Aggregation
	to          command.PushdownVisitor
	answer      command.PushdownResult
	failed      bool
	// rows and bytes are the remaining numbers of rows and bytes up to the limits.
	rows, bytes int64
}

// newPushdown returns the pushdown of a read, or nil if the read must return rows.
func newPushdown(ctx context.Context, r *Replica, c *command.Read, v command.Visitor) *pushdown {
	if c.Pushdown == nil || c.Changes != nil || c.Index.Ordered() {
		return nil
	}
	to, ok := v.(command.PushdownVisitor)
	known := r.host.aggregator.Load()
	if !ok || known == nil {
		return nil
	}
	var f *pushdown
	defer func() {
		if f == nil {
			r.host.pushdown.Add(-1)
		}
	}()
	if r.host.pushdown.Add(1) > pushdownsMax {
		return nil
	}
	aggregation, err := (*known).Aggregate(ctx, c)
	if err != nil {
		return nil
	}
	f = &pushdown{aggregation: aggregation, to: to, rows: pushdownRowsMax, bytes: pushdownBytesMax}
	if r.Throughput().Limited() {
		f.rows, f.bytes = pushdownRowsBudgeted, pushdownBytesBudgeted
	}
	if n := int64(c.Pushdown.Rows); n > 0 {
		f.rows = min(f.rows, n)
	}
	return f
}

// tell passes the result to the visitor. The visitor must not have received any rows.
func (f *pushdown) tell(m *readMeter) error {
	f.answer.Rows, f.answer.Bytes = m.Rows, m.Bytes
	if !f.failed {
		var err error
		if f.answer.Result, err = f.aggregation.Result(); err != nil {
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
func (f *pushdown) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	a := &f.answer
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	step, err := f.checkStep(f.aggregation.Partition(t, key, static))
	a.More = step == command.Stop
	return step, err
}

// Row implements command.Visitor.
func (f *pushdown) Row(clustering []byte, found *row.Row) (command.Step, error) {
	a := &f.answer
	a.Clustering = append(a.Clustering[:0], clustering...)
	step, err := f.checkStep(f.aggregation.Row(clustering, found))
	f.rows--
	f.bytes -= int64(len(a.Key) + len(clustering) + found.Size())
	if step == command.More && (f.rows <= 0 || f.bytes <= 0) {
		step = command.Stop
	}
	a.More = step == command.Stop
	return step, err
}

// checkStep records an error of the aggregation.
func (f *pushdown) checkStep(step command.Step, err error) (command.Step, error) {
	if err != nil {
		f.failed = true
		return command.Stop, nil
	}
	return step, nil
}

// Passed implements command.ProgressVisitor. It also enforces the limits for a read that finds few rows.
func (f *pushdown) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	a := &f.answer
	if f.rows -= int64(looked); f.rows > 0 {
		return command.More, nil
	}
	a.Token, a.Key, a.Clustering = t, append(a.Key[:0], key...), a.Clustering[:0]
	a.More, a.AfterPartition = true, true
	return command.Stop, nil
}
