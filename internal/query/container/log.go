// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// keepMinutesMax is the maximum retention of a change feed policy, which is 30 days, as in Cosmos DB.
const keepMinutesMax = 30 * 24 * 60

// readChanges parses the retention of all versions and deletions.
func (d *Definition) readChanges(v document.Value) (document.Value, *Error) {
	kept := v.Get("changeFeedPolicy").Get("retentionDuration")
	if !kept.IsDefined() || kept.Kind() == document.Null {
		return v, nil
	}
	minutes := kept.Float()
	if kept.Kind() != document.Number || minutes != math.Trunc(minutes) || minutes < 0 || minutes > keepMinutesMax {
		return v, Errorf(400, 0, "The value of 'retentionDuration' in the change feed policy must be a number of minutes "+
			"from 0 to %d, not %v.", keepMinutesMax, kept)
	}
	d.Keep = int64(minutes) * 60
	return v, nil
}

// appendChange appends the change log entry of a changed item. It does nothing if the container has no change log.
func (t *Transaction) appendChange(ops []command.Op, id string, s *state) []command.Op {
	if !t.c.table.Container.Feed {
		return ops
	}
	op := command.Op{Kind: command.OpChange, Clustering: t.c.clustering(id)}
	if s.was != nil {
		op.Value = binary.BigEndian.AppendUint64(nil, uint64(s.stamp))
	}
	if s.is != nil {
		op.Index = command.ChangeLatest
	}
	if t.c.Definition.Keep > 0 {
		op.Index |= command.ChangeKept
		op.Operand = t.kept(s)
	}
	return append(ops, op)
}

// kept returns a change in the form in which the change log retains it.
func (t *Transaction) kept(s *state) []byte {
	kind := command.Replaced
	switch {
	case s.is == nil:
		kind = command.Deleted
	case s.was == nil:
		kind = command.Created
	}
	ttl := int32(t.c.Definition.Keep)
	expiry := t.now + t.c.Definition.Keep
	var b row.Builder
	b.Reset(row.Unstamped)
	columns := &t.c.columns
	image := func(s *stored, bit uint32) {
		if s != nil {
			b.Cell(columns.body|bit, nil, s.body, ttl, expiry)
			b.Cell(columns.etag|bit, nil, s.etag[:], ttl, expiry)
			b.Cell(columns.ts|bit, nil, timestampValue(s.ts), ttl, expiry)
		}
	}
	image(s.is, 0)
	image(s.was, command.ChangeBefore)
	b.Cell(command.ChangeKind, nil, []byte{byte(kind)}, ttl, expiry)
	return b.Append(nil)
}

// keptSince returns the time since which a container has kept all changes, in Unix seconds. keep is the retention in
// seconds.
func keptSince(t *schema.Container, keep, now int64) int64 {
	switch {
	case keep == 0:
		return 0
	case t.Keep == 0:
		return now
	default:
		return max(t.KeptSince, now-t.Keep)
	}
}

// deleteEach deletes the items of a logical partition in a container that keeps all changes. Each transaction deletes
// many items, and each deletion is logged as a change.
func (e *Engine) deleteEach(ctx context.Context, c *Container, key epk.Key, o RequestOptions) (where Where, err error) {
	for ctx.Err() == nil {
		x, err := e.newScan(c, &Scope{Key: key}, "", &o)
		if err != nil {
			return where, err
		}
		x.max = OperationsMax
		if err := x.next(ctx); err != nil {
			return where, e.failed(err, x)
		}
		ops := make([]Operation, len(x.rows))
		for i := range x.rows {
			ops[i] = Operation{Kind: Delete, ID: x.rows[i].id}
		}
		charge := where.Charge + x.charge
		if len(ops) == 0 {
			w := e.whereOf(c, &Scope{Key: key}, x)
			w.Charge = charge
			return w, nil
		}
		done, err := e.Do(ctx, c, key, ops, o)
		if err != nil {
			return where, err
		}
		if failed := done.Failed; failed >= 0 && done.Of[failed].Status != 404 {
			return where, done.Of[failed].Err
		}
		where = done.Where
		where.Charge += charge
	}
	return where, refused(ctx.Err())
}
