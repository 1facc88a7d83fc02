// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// errBehind means that this node does not know the schema of a row or hint.
var errBehind = errors.New("the schema of this node is out of date")

// wanted is a base row whose views must be updated. Each view must be updated up to the stamp of its hint.
type wanted struct {
	token           token.Token
	key, clustering []byte
	views           []wantedView
}

type wantedView struct {
	view  *View
	stamp int64
}

// delivery is an update in progress. It holds the mutations of views and the hints that can be removed after the
// update.
type delivery struct {
	keeper    *Keeper
	task      *task
	replica   *partition.Replica
	rows      int
	mutations []command.Mutation
	settled   [][]byte
	// If result is not nil, it receives the result.
	result chan error
}

// Done implements command.Completion.
func (d *delivery) Done(o command.Outcome) {
	if o.Err == nil {
		d.keeper.done(d.replica, d.rows, d.settled)
	} else {
		d.keeper.failed(d.rows, o.Err)
	}
	d.keeper.deliverySlots <- struct{}{}
	if d.result != nil {
		d.result <- o.Err
		return
	}
	d.task.finish() // also called after an error, because the hint remains
}

// follow updates views after a write.
func (k *Keeper) follow(ctx context.Context, t *task) {
	rows, ranges, err := k.sort(t.replica, t.hints, t.stamp)
	for i := range ranges {
		if err == nil {
			err = k.followRange(ctx, t.replica, &ranges[i])
		}
	}
	d := &delivery{keeper: k, task: t, replica: t.replica}
	for i := range rows {
		if err == nil {
			err = k.image(ctx, d, &rows[i], true)
		}
	}
	if err != nil {
		k.failed(len(rows)+len(ranges), err)
		t.finish()
		return
	}
	k.send(ctx, d)
}

// send starts a delivery and returns immediately. After the delivery, the method Done is called.
func (k *Keeper) send(ctx context.Context, d *delivery) {
	if _, err := sched.Await(k.o.Sched, context.WithoutCancel(ctx), k.deliverySlots, 0); err != nil {
		return // the process is shutting down
	}
	if len(d.mutations) == 0 {
		d.Done(command.Outcome{})
		return
	}
	k.o.Coordinator.Write(context.WithoutCancel(ctx), d.mutations,
		coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, d)
}

// deliver sends a delivery and waits for its result.
func (k *Keeper) deliver(ctx context.Context, d *delivery) error {
	d.result = make(chan error, 1)
	k.send(ctx, d)
	return k.answer(d.result)
}

// answer waits for the result of a delivery.
func (k *Keeper) answer(result chan error) error {
	err, ended := sched.Await(k.o.Sched, context.Background(), result, 0)
	return cmp.Or(err, ended)
}

// wantedRange is a range of base rows for which a view must be updated.
type wantedRange struct {
	view  *View
	stamp int64
	hint  []byte
	token token.Token
	key   []byte
	due   keys.StaleHint
}

// sort reads hints and returns the rows and ranges that must be updated. Each row contains all views that must be
// updated. sort ignores hints that do not exist, because they have been applied. If written is not 0, it is the stamp
// of hints that have just been written. In this case, sort does not read the hints, because applying an older hint
// after newer hints is harmless. If sort skips hints that cannot be processed, err is the reason for skipping one of
// these hints.
func (k *Keeper) sort(r *partition.Replica, hints [][]byte, written int64) (rows []wanted, ranges []wantedRange,
	err error) {
	views := k.views()
	for _, hint := range hints {
		stamp := written
		if stamp == 0 {
			at, ok, failed := r.Hints().At(hint)
			if failed != nil {
				return nil, nil, failed
			}
			if !ok {
				continue
			}
			stamp = at
		}
		e, ok := keys.ParseIndex(hint)
		due, sound := keys.ParseStaleHint(e.Clustering)
		v := views.byIndex[e.Index]
		switch {
		case !ok || !sound:
			err = fmt.Errorf("hint %x is malformed", hint)
			continue
		case v == nil:
			err = errBehind // if the view was dropped, its hints will be removed
			continue
		case due.Range:
			ranges = append(ranges, wantedRange{v, stamp, hint, e.Token, e.Key, due})
			continue
		}
		rows = add(rows, &e, due.Clustering, wantedView{v, stamp})
	}
	return rows, ranges, err
}

// add adds a row or adds a view to an existing row.
func add(rows []wanted, e *keys.Entry, clustering []byte, v wantedView) []wanted {
	for i := range rows {
		w := &rows[i]
		if w.token == e.Token && bytes.Equal(w.key, e.Key) && bytes.Equal(w.clustering, clustering) {
			w.views = append(w.views, v)
			return rows
		}
	}
	return append(rows, wanted{e.Token, e.Key, clustering, []wantedView{v}})
}

// image adds the updates for the current state of a base row to a delivery. If hinted is true, the updates settle the
// hints of the row.
func (k *Keeper) image(ctx context.Context, d *delivery, w *wanted, hinted bool) error {
	base := w.views[0].view.Base
	values, err := w.views[0].view.valuesOf(w.key, w.clustering)
	if err != nil {
		return err
	}
	now := k.o.Clock.Wall().Unix()
	// A read with the time 0 also returns expired data. Expired data is also expired in the view, so this node's clock
	// has no effect.
	read := command.Read{Table: base.ID, Key: w.key, Token: w.token, Now: 0, Dropped: base.Hidden()}
	if len(base.Clustering) > 0 {
		read.Slices = []command.Slice{{Start: w.clustering, End: append(bytes.Clone(w.clustering), 0)}}
	}
	images := make([]Image, len(w.views))
	at := looker{fn: func(r *row.Row) error {
		var b row.Builder
		for i, v := range w.views {
			if !v.view.knows(r) {
				return errBehind
			}
			images[i] = v.view.image(&b, &values, r, v.stamp, now)
		}
		return nil
	}}
	// The view and the base table may have been truncated. A read from a lagging replica would restore a truncated row.
	if err := d.replica.LookLed(ctx, &read, &at); err != nil {
		return err
	}
	for i, v := range w.views {
		if err := v.view.changes(d, w, &values, &images[i], v.stamp, now); err != nil {
			return err
		}
		if hinted {
			hint := keys.AppendIndex(nil, v.view.Index, keys.HintStale, w.token, w.key,
				keys.AppendStaleRow(nil, w.clustering))
			d.settled = append(d.settled, keys.AppendHintRemoval(nil, hint, v.stamp))
		}
	}
	d.rows++
	return nil
}

// looker is a visitor that records one row.
type looker struct{ fn func(r *row.Row) error }

// Partition implements command.Visitor.
func (l *looker) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (l *looker) Row(_ []byte, r *row.Row) (command.Step, error) { return command.Stop, l.fn(r) }

// changes adds the operands that update the view for a base row at a stamp. They are the image at its place and
// deletions at all other places where the row may have view data. A place is not settled if the row has the view key
// value of the place, because the row may appear at the place again without a new place.
//
// An image is added only at an existing place. If the row was written before the view was created and the view build
// has not reached the row, the place does not exist. In this case, changes adds the place and a hint that the row is
// due.
func (v *View) changes(d *delivery, w *wanted, values *values, image *Image, stamp, now int64) error {
	var b row.Builder
	var left [][]byte
	if v.key == nil {
		if image.Shown {
			d.add(v, &image.Place, image.Operand) // every hint that a row is due is written together with the place
			return nil
		}
		if p, ok := v.place(values, nil); ok {
			d.add(v, &p, gone(&b, stamp, now))
		}
		left = append(left, keys.AppendIndex(nil, v.Index, keys.HintViewRow, w.token, w.key,
			keys.AppendViewRow(nil, w.clustering, nil))) // a write that creates the row adds the place again
		return v.settle(d, w, left, stamp)
	}
	known := false
	lower, upper := keys.ViewRowBounds(w.clustering)
	err := d.replica.Hints().ViewKeys(v.Index, w.token, w.key, lower, upper, func(place []byte, _ int64) bool {
		e, _ := keys.ParseIndex(place)
		_, value, ok := keys.ParseViewRow(e.Clustering)
		same := ok && image.Value != nil && bytes.Equal(value, image.Value)
		known = known || same
		if !ok || same && image.Shown {
			return true
		}
		if p, ok := v.place(values, value); ok {
			d.add(v, &p, gone(&b, stamp, now))
		}
		if !same {
			left = append(left, bytes.Clone(place))
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case image.Shown && known:
		d.add(v, &image.Place, image.Operand)
	case image.Shown:
		d.mutations = append(d.mutations, command.Mutation{Table: v.Base.ID, Token: w.token, Key: w.key,
			SchemaVersion: v.Base.Revision, Ops: v.Row(nil, w.clustering, image.Value, true)})
	}
	return v.settle(d, w, left, stamp)
}

// settle removes the places that a base row has left. If the row has become due again since the stamp, settle keeps the
// places. In this case, a delivery of an older row may have written the view row at a place with a higher stamp. A
// later delivery needs the place to delete the view row.
func (v *View) settle(d *delivery, w *wanted, places [][]byte, stamp int64) error {
	if len(places) == 0 {
		return nil
	}
	since, err := d.replica.Hints().DueSince(v.Index, w.token, w.key, w.clustering, stamp)
	if since || err != nil {
		return err
	}
	for _, place := range places {
		d.settled = append(d.settled, keys.AppendHintRemoval(nil, place, stamp))
	}
	return nil
}

// add adds an operand for a view row.
func (d *delivery) add(v *View, p *Place, operand []byte) {
	op := command.Op{Kind: command.OpRow, Clustering: p.Clustering, Operand: operand}
	for i := range d.mutations {
		if m := &d.mutations[i]; m.Table == v.Table.ID && bytes.Equal(m.Key, p.Key) {
			m.Ops = append(m.Ops, op)
			return
		}
	}
	d.mutations = append(d.mutations, command.Mutation{Table: v.Table.ID, Token: p.Token, Key: p.Key,
		SchemaVersion: v.Table.Revision, Ops: []command.Op{op}})
}

// followRange updates a view for the rows of a range. It processes the rows in chunks of limited size.
func (k *Keeper) followRange(ctx context.Context, r *partition.Replica, g *wantedRange) error {
	lower := keys.AppendViewRowsFrom(nil, g.due.Start)
	var upper []byte
	if g.due.Range && g.due.End != nil {
		upper = keys.AppendViewRowsFrom([]byte{}, g.due.End)
	}
	for more := true; more; {
		more = false
		var rows []wanted
		err := r.Hints().ViewKeys(g.view.Index, g.token, g.key, lower, upper, func(place []byte, _ int64) bool {
			e, _ := keys.ParseIndex(bytes.Clone(place))
			clustering, _, ok := keys.ParseViewRow(e.Clustering)
			if n := len(rows); !ok || n > 0 && bytes.Equal(rows[n-1].clustering, clustering) {
				return true
			}
			if more = len(rows) == chunkRows; more {
				lower = keys.AppendViewRowsFrom(nil, clustering)
				return false
			}
			rows = append(rows, wanted{g.token, g.key, clustering, []wantedView{{g.view, g.stamp}}})
			return true
		})
		if err != nil {
			return err
		}
		d := &delivery{keeper: k, replica: r}
		for i := range rows {
			if err := k.image(ctx, d, &rows[i], false); err != nil {
				return err
			}
		}
		if !more {
			d.settled = append(d.settled, keys.AppendHintRemoval(nil, g.hint, g.stamp))
		}
		if err := k.deliver(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
