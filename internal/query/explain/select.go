// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/read"
)

// Select says what one page of a SELECT would cost, read as o says. The reader is that of the statement; m is the
// present map. Errors are those of the statement.
func Select(ctx context.Context, r read.Reader, m *topology.Snapshot, p *read.Plan, b *expr.Bindings, o read.Options,
) (Price, error) {
	wanted, err := p.MaxRows(b, o.PageSize)
	if err != nil {
		return Price{}, err
	}
	l := &peekReader{reader: r, snapshot: m, touched: map[topology.PartitionID]bool{}}
	var page read.Page
	err = p.Execute(ctx, l, b, o, &page)
	if err != nil && !l.stopped {
		return Price{Cost: l.cost}, err
	}
	out := Price{Plan: p.Summary(), Index: p.Index(), Cost: l.cost, Partitions: len(l.touched) + l.rangePartitions}
	if !l.stopped {
		out.Min = l.price
		out.Expected, out.Max = out.Min, out.Min
		if len(page.PagingState) > 0 {
			out.Plan += fmt.Sprintf("; one page of %d rows", page.Rows)
		}
		return out, nil
	}
	l.cost += l.meter.Price(&command.Read{Peek: true}) // of the partition at hand, which was charged, but not told
	out.Cost = l.cost
	l.extrapolate(&out, int64(page.Rows), wanted)
	out.Plan += fmt.Sprintf("; estimated from its first %d rows", l.rows)
	return out, nil
}

// errEnough ends an execution that has looked at enough. The reader may make another error of it.
var errSampleFull = errors.New("enough was looked at")

// looker stands between an execution and what it reads: its commands only peek, and what they examine is counted at the
// price that the execution would pay.
type peekReader struct {
	reader   read.Reader
	snapshot *topology.Snapshot

	v command.Visitor
	// c is the command as it would be sent, and continued in the physical partition at hand.
	c command.Read
	// meter counts in the physical partition at hand.
	meter ru.Meter
	// price is that of the partitions which are through, cost what peeking has cost there.
	price, cost ru.Units
	// touched are the physical partitions of keys, passed is the number of those of a range.
	touched         map[topology.PartitionID]bool
	rangePartitions int

	rows, bytes, walked int64
	stopped             bool
	sample              partitionSample
}

// Read implements read.Reader.
func (l *peekReader) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	l.v, l.c, l.meter = v, *c, ru.Meter{}
	if c.Key == nil {
		l.sample.begin(c)
	} else if p := l.snapshot.Locate(c.Table, c.Token, c.Key); p != nil {
		l.touched[p.ID] = true
	}
	peek := *c
	peek.Peek = true
	return l.reader.Read(ctx, &peek, l)
}

// Charge implements ru.Charged: a physical partition is through.
func (l *peekReader) Charge(u ru.Units) {
	l.cost += u
	l.price += l.meter.Price(&l.c)
	if l.c.Key == nil && !l.c.Continued {
		l.rangePartitions++
	}
	l.meter, l.c.Continued = ru.Meter{}, false
	ru.Tell(l.v, 0) // a search for the nearest vectors begins anew
}

// Partition implements command.Visitor.
func (l *peekReader) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	l.sample.partition(t)
	before := l.meter
	l.meter.Partition(&l.c, key, static)
	return l.counted(&before, func() (command.Step, error) { return l.v.Partition(t, key, static) })
}

// Row implements command.Visitor.
func (l *peekReader) Row(clustering []byte, r *row.Row) (command.Step, error) {
	before := l.meter
	l.meter.Row(clustering, r)
	return l.counted(&before, func() (command.Step, error) { return l.v.Row(clustering, r) })
}

// counted adds up what the meter has counted since, passes it on, and ends the execution that would go on when enough
// was seen.
func (l *peekReader) counted(before *ru.Meter, pass func() (command.Step, error)) (command.Step, error) {
	l.rows += l.meter.Rows - before.Rows
	l.bytes += l.meter.Bytes - before.Bytes
	l.sample.rows += l.meter.Rows - before.Rows
	step, err := pass()
	if err == nil && step != command.Stop && (l.rows >= maxPeekRows || l.bytes >= maxPeekBytes) {
		l.stopped = true
		return command.Stop, errSampleFull
	}
	return step, err
}

// Passed implements command.Walker.
func (l *peekReader) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if l.c.Index != nil && l.c.Index.Near != nil {
		l.meter.Entries(&l.c, looked)
		return command.Passed(l.v, t, key, looked)
	}
	l.walked += int64(looked)
	step, err := command.Passed(l.v, t, key, looked)
	if err == nil && step != command.Stop && l.walked >= maxPeekWalk {
		l.sample.partition(t)
		l.stopped = true
		return command.Stop, errSampleFull
	}
	return step, err
}
