// SPDX-License-Identifier: Apache-2.0

package read

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// request builds the commands of a scan. It evaluates the access path of a plan and owns the memory to which the
// commands refer.
type request struct {
	plan    *Plan
	options *Options
	bind    *expr.Bindings
	// deadline is the deadline of USING TIMEOUT, or zero.
	deadline time.Time

	cmd                       command.Read
	index                     command.IndexLookup
	terms                     []command.IndexTerm
	slices                    []command.Slice
	start, end, keyBytes      []byte
	components                [][]byte
	oneKey                    [1]partitionKey
	afterKey, afterClustering []byte
}

func (q *request) reset() {
	clear(q.components)
	clear(q.slices)
	clear(q.terms)
	q.plan, q.options, q.bind, q.deadline = nil, nil, nil, time.Time{}
	q.cmd, q.index, q.oneKey[0] = command.Read{}, command.IndexLookup{}, partitionKey{}
	q.components, q.slices, q.terms = q.components[:0], q.slices[:0], q.terms[:0]
}

// singleKey evaluates a partition key that is restricted only by equalities. It allocates no memory.
func (q *request) singleKey() ([]partitionKey, bool, error) {
	w := &q.plan.where
	if w.token != nil {
		return nil, false, nil
	}
	q.components = q.components[:0]
	for _, r := range w.pk.List {
		if r.Kind != relation.Equal {
			return nil, false, nil
		}
	}
	for _, r := range w.pk.List {
		v, err := relation.EvalKey(r.Value.Terms[0], r.First(), q.bind)
		if err != nil {
			return nil, false, err
		}
		q.components = append(q.components, v)
	}
	var err error
	if q.keyBytes, err = appendPartitionKey(q.keyBytes[:0], q.components); err != nil {
		return nil, false, err
	}
	q.oneKey[0] = partitionKey{bytes: q.keyBytes, token: w.table.Token(q.keyBytes)}
	return q.oneKey[:], true, nil
}

// bounds evaluates the parts that the commands of all partitions share. none is true if no row can match.
func (q *request) bounds() (none bool, err error) {
	p, w := q.plan, &q.plan.where
	q.cmd = command.Read{
		Table: p.table.ID, Reversed: p.order.reversed, NoRows: p.distinct, Now: q.options.Now, Dropped: p.dropped,
		Level:    q.options.Level,
		Deadline: q.deadline,
		Statics:  p.statics, Principal: q.options.Claimant, NoWait: q.options.NoWait,
	}
	q.slices = q.slices[:0]
	if p.simple {
		q.start, q.end, none, err = w.simpleInterval(q.start, q.end, q.bind)
		q.slices = append(q.slices, command.Slice{Start: q.start, End: q.end})
	} else {
		var all bool
		var list []command.Slice
		list, all, err = w.intervals(q.bind)
		q.slices = append(q.slices, list...)
		none = !all && len(list) == 0
	}
	return none, err
}

func (q *request) lookup() error {
	w := &q.plan.where
	if len(w.lookup.terms) > 0 {
		return q.lookupTerms()
	}
	if err := q.available(w.lookup.index); err != nil {
		return err
	}
	v, _, err := w.lookup.value.Eval(q.bind)
	if err != nil {
		return err
	}
	if w.lookup.entry != nil {
		value, _, err := w.lookup.entry.Eval(q.bind)
		if err != nil {
			return err
		}
		v = expr.EntryValue(v, value)
	}
	if len(v) > keyBytesMax {
		return dberr.Invalidf("Index expression values may not be larger than 64K")
	}
	q.index = command.IndexLookup{Index: w.lookup.index.ID, Value: v}
	q.cmd.Index = &q.index
	return nil
}

// afterPosition makes the command resume after a position.
func (q *request) afterPosition(at *position) {
	q.afterKey = keyIn(q.afterKey, at.key) // nil would select the beginning
	q.afterClustering = append(q.afterClustering[:0], at.clustering...)
	q.cmd.AfterKey, q.cmd.AfterToken, q.cmd.AfterClustering = q.afterKey, at.token, q.afterClustering
	q.cmd.AfterPartition = at.afterPartition
}

// afterRow makes the command resume after a row of the partition. If no rows remain, afterRow returns false.
func (q *request) afterRow(at *position) bool {
	q.afterClustering = append(q.afterClustering[:0], at.clustering...)
	q.cmd.Slices = relation.After(q.slices, q.afterClustering, q.plan.order.reversed)
	return len(q.cmd.Slices) > 0
}

// lookupTerms evaluates the terms of storage-attached indexes.
func (q *request) lookupTerms() error {
	q.terms = q.terms[:0]
	for i := range q.plan.where.lookup.terms {
		t := &q.plan.where.lookup.terms[i]
		if err := q.available(t.index); err != nil {
			return err
		}
		c, err := t.eval(q.bind)
		if err != nil {
			return err
		}
		q.terms = append(q.terms, c)
	}
	q.index = command.IndexLookup{Index: q.terms[0].Index, All: q.terms}
	q.cmd.Index = &q.index
	return nil
}

// building reports whether an index is being built.
func (q *request) building(ix *schema.Index) bool {
	return q.options.Builds != nil && q.options.Builds.Building(ix)
}

// available returns an error if an index is being built.
func (q *request) available(ix *schema.Index) error {
	if !q.building(ix) {
		return nil
	}
	return &dberr.ReadFailure{
		Level: q.options.Level, BlockFor: 1, Failures: 1,
		Message: "The secondary index '" + ix.Name + "' is not yet available",
	}
}
