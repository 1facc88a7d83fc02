// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// firstRowsMax is the maximum number of rows without a marker that firstRow skips while it holds the latch.
const firstRowsMax = 100

// firstRow finds the row that c.First requests, and returns the cost of the read.
func firstRow(ctx context.Context, c *command.Conditional, read readFunc) (*command.FoundRow, ru.Units,
	error) {
	m := &c.Mutation
	q := command.Read{Table: m.Table, Key: m.Key, Token: m.Token, Now: c.Now, Dropped: c.Dropped,
		Level: dberr.Serial}
	if q.Key == nil {
		q.Key = []byte{}
	}
	v := firstRowVisitor{c: &q, marked: c.First == command.FirstMarked}
	if !v.marked {
		q.Limit = 1
	}
	err := read(ctx, &q, &v)
	return v.found, v.Price(&q), err
}

// firstRowVisitor stores the first row or, if marked is set, the first row with a marker.
type firstRowVisitor struct {
	ru.Meter
	c      *command.Read
	marked bool
	found  *command.FoundRow
}

func (v *firstRowVisitor) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	v.Meter.Partition(v.c, key, static)
	return command.More, nil
}

func (v *firstRowVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if v.Meter.Row(clustering, r); v.marked && !r.Live && v.Rows < firstRowsMax {
		return command.More, nil
	}
	if r.Live || !v.marked {
		found := r.Clone()
		v.found = &command.FoundRow{Clustering: bytes.Clone(clustering), Row: &found}
	}
	return command.Stop, nil
}
