// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Modify computes the price of a modification or a batch. execute must execute the statement with the given executor.
// The executor does not send the writes. tables holds the tables to which the statement writes. Errors and warnings are
// the same as in an execution of the statement.
func Modify(ctx context.Context, s Source, o write.Options, tables []*schema.Table,
	execute func(e *write.Executor, done write.Completion)) (Price, []string, error) {
	p := &pricer{source: s, snapshot: s.Topology(), touched: map[topology.PartitionID]bool{},
		indexes: map[string]bool{}, names: map[uint32]string{}, keys: map[string]bool{}}
	for _, t := range tables {
		for _, ix := range t.Indexes {
			p.names[ix.ID] = ix.Name
		}
	}
	execute(write.NewExecutor(p, o), p)
	p.price.Partitions = len(p.touched)
	p.price.Index = strings.Join(slices.Sorted(maps.Keys(p.indexes)), ", ")
	p.price.Plan = p.summary()
	return p.price, p.warnings, p.err
}

// pricer is a write.Coordinator that adds up the cost of writes. It completes the writes without sending them.
type pricer struct {
	source   Source
	snapshot *topology.Snapshot
	price    Price
	warnings []string
	err      error

	touched map[topology.PartitionID]bool
	keys    map[string]bool // logical partitions
	indexes map[string]bool
	names   map[uint32]string
	rows    int
	entries int
	// notes describes the effect of conditions and updates on the price.
	notes []string
}

// Write implements write.Coordinator.
func (p *pricer) Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions,
	done command.Completion) {
	for i := range ms {
		p.touch(&ms[i])
		p.add(p.mutation(&ms[i]))
	}
	for _, u := range o.Updates {
		if _, err := p.conditional(ctx, u); err != nil {
			done.Done(command.Failed(err))
			return
		}
	}
	done.Done(command.Outcome{})
}

// ConditionalWrite implements write.Coordinator.
func (p *pricer) ConditionalWrite(ctx context.Context, c *command.Conditional, _ coordinator.WriteOptions,
	done command.Completion) {
	d, err := p.conditional(ctx, c)
	if err != nil {
		done.Done(command.Failed(err))
		return
	}
	done.Done(command.Decided(d, 0))
}

// Written implements write.Completion.
func (p *pricer) Written(o *write.Outcome) {
	p.err = o.Err
	p.warnings = slices.Clone(o.Warnings)
}

// add adds a fixed cost to the price.
func (p *pricer) add(u ru.Units) {
	p.price.Min += u
	p.price.Expected += u
	p.price.Max += u
}

func (p *pricer) touch(m *command.Mutation) {
	if at := p.snapshot.Locate(m.Table, m.Token, m.Key); at != nil {
		p.touched[at.ID] = true
	}
	p.keys[fmt.Sprint(m.Table, " ", string(m.Key))] = true
}

// mutation returns the cost of a mutation and counts its rows and index entries.
func (p *pricer) mutation(m *command.Mutation) ru.Units {
	var last *command.Op
	for i := range m.Ops {
		o := &m.Ops[i]
		if o.Kind == command.OpChange {
			continue
		}
		if o.Kind != command.OpIndex {
			if last == nil || !ru.SameRow(last, o) {
				p.rows++
			}
			last = o
			continue
		}
		p.entries++
		p.indexes[p.names[o.Index]] = true
	}
	u, _ := ru.Write(m)
	return u
}

// conditional adds the cost of a conditional statement, based on the current rows. It considers the case in which the
// conditions are satisfied and the case in which they are not satisfied.
func (p *pricer) conditional(ctx context.Context, c *command.Conditional) (*command.CASResult, error) {
	m := &c.Mutation
	p.touch(m)
	found, cost, err := p.source.Find(ctx, c)
	p.price.Cost += cost
	if err != nil {
		return nil, err
	}
	serial := len(c.Conditions) > 0
	p.add(ru.Found(c, found))
	holds, err := command.Check(c, found)
	if err != nil {
		return nil, err
	}
	whole := *m
	ops, err := command.Resolve(slices.Clip(m.Ops), c, found, row.Unstamped)
	switch {
	case err == nil:
		whole.Ops = ops
	case holds:
		return nil, err
	}
	applied := p.mutation(&whole)
	d := &command.CASResult{Applied: holds, Found: found}
	if !serial {
		if len(found) > 0 {
			p.notes = append(p.notes, fmt.Sprintf("reads %s first", count(len(found), "row")))
		}
		p.add(applied)
		return d, nil
	}
	refused, err := p.notAppliedCost(ctx, c)
	if err != nil {
		return nil, err
	}
	p.price.Min += min(applied, refused)
	p.price.Max += max(applied, refused)
	if holds {
		p.price.Expected += applied
		p.notes = append(p.notes, "its conditions are currently met")
	} else {
		p.price.Expected += refused
		p.notes = append(p.notes, "its conditions are currently not met")
	}
	return d, nil
}

// notAppliedCost returns the additional cost of a conditional statement whose conditions are not satisfied. The result
// of the statement may contain a row of the partition.
func (p *pricer) notAppliedCost(ctx context.Context, c *command.Conditional) (ru.Units, error) {
	if c.First == command.NoFirst {
		return 0, nil
	}
	m := &c.Mutation
	q := command.Read{Table: m.Table, Key: m.Key, Token: m.Token, Now: c.Now, Dropped: c.Dropped,
		Level: dberr.Quorum, Peek: true, Principal: m.Principal}
	v := firstRow{pricer: p, marked: c.First == command.FirstMarked}
	if err := p.source.Read(ctx, &q, &v); err != nil {
		return 0, err
	}
	q.Peek, q.Level = false, dberr.Serial
	return v.Price(&q), nil
}

// firstRow reads rows like a leader that searches for the first row or the first row with a row marker.
type firstRow struct {
	ru.Meter
	pricer *pricer
	marked bool
}

// firstRowsMax is the maximum number of rows without a row marker that a leader skips.
const firstRowsMax = 100

// Charge implements ru.Charged.
func (v *firstRow) Charge(u ru.Units) { v.pricer.price.Cost += u }

// Partition implements command.Visitor.
func (v *firstRow) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	v.Meter.Partition(&command.Read{}, key, static)
	return command.More, nil
}

// Row implements command.Visitor.
func (v *firstRow) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if v.Meter.Row(clustering, r); v.marked && !r.Live && v.Rows < firstRowsMax {
		return command.More, nil
	}
	return command.Stop, nil
}

// summary describes the written data.
func (p *pricer) summary() string {
	parts := []string{fmt.Sprintf("writes %s of %s", count(p.rows, "row"), count(len(p.keys), "partition"))}
	if p.entries > 0 {
		entry := "1 index entry"
		if p.entries > 1 {
			entry = fmt.Sprintf("%d index entries", p.entries)
		}
		parts = append(parts, entry)
	}
	return strings.Join(append(parts, p.notes...), "; ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
