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
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/read"
)

// Select computes the price of one page of a SELECT with the options o. r is the reader for the statement. m is the
// current topology. Errors are the same as in an execution of the statement.
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
	l.cost += l.meter.Price(&command.Read{Peek: true}) // the current partition has been charged but not reported
	out.Cost = l.cost
	l.extrapolate(&out, int64(page.Rows), wanted)
	out.Plan += fmt.Sprintf("; estimated from its first %d rows", l.rows)
	return out, nil
}

// errSampleFull ends an execution that has reached the limits of the sample. The reader may replace errSampleFull with
// a different error.
var errSampleFull = errors.New("sample limit reached")

// peekReader is a Reader whose commands only count rows. It computes the same charge as an execution.
type peekReader struct {
	reader   read.Reader
	snapshot *topology.Snapshot

	v command.Visitor
	// c is the command without Peek. The flag c.Continued applies to the current physical partition.
	c command.Read
	// meter counts the work in the current physical partition.
	meter ru.Meter
	// price is the total price of the complete partitions. cost is the total cost of counting the rows in these
	// partitions.
	price, cost ru.Units
	// touched holds the physical partitions that contain the keys. rangePartitions is the number of physical partitions
	// in a range.
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

// Charge implements ru.Charged. It is called at the end of a physical partition.
func (l *peekReader) Charge(u ru.Units) {
	l.cost += u
	l.price += l.meter.Price(&l.c)
	if l.c.Key == nil && !l.c.Continued {
		l.rangePartitions++
	}
	l.meter, l.c.Continued = ru.Meter{}, false
	ru.Tell(l.v, 0) // resets an ANN search for the next partition
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

// counted calls pass and adds the rows and bytes that have been counted since before. If a limit is reached, counted
// ends the execution.
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

// Passed implements command.ProgressVisitor.
func (l *peekReader) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if l.c.Index != nil && l.c.Index.Vector != nil {
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
