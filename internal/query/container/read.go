// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// charged is a visitor that records the charge of a read.
type charged struct {
	command.Visitor
	charge *ru.Units
}

// Charge implements ru.Charged.
func (v charged) Charge(u ru.Units) { *v.charge += u }

// Passed implements command.ProgressVisitor.
func (v charged) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	return command.Passed(v.Visitor, t, key, looked)
}

// PushedDown implements command.PushdownVisitor.
func (v charged) PushedDown(f *command.PushdownResult) (command.Step, error) {
	if to, ok := v.Visitor.(command.PushdownVisitor); ok {
		return to.PushedDown(f)
	}
	return command.Stop, errMalformed
}

// read sends a read and repeats it if its result could not be confirmed. read calls visitor for each attempt.
func (e *Engine) read(ctx context.Context, q *command.Read, charge *ru.Units, visitor func() command.Visitor) error {
	s := e.opts.Sched
	began := s.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		*charge = 0
		err := e.opts.Coordinator.Read(ctx, q, charged{visitor(), charge})
		if !errors.Is(err, coordinator.ErrRepeat) || s.Since(began)+pause > e.opts.ReadTimeout {
			return err
		}
		if err := s.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Read reads an item by its ID. The status of the result is 200, 304, or 404. Read returns an error if it cannot read
// the item. The status of the error is 408, 429, 503, or 400. An incomplete key causes 400.
func (e *Engine) Read(ctx context.Context, c *Container, key epk.Key, id, ifNoneMatch string, o RequestOptions) (
	*Result, Where, error) {
	if bad := e.usable(c, key); bad != nil {
		return nil, Where{}, bad
	}
	keyBytes := epk.AppendKey(make([]byte, 0, keyRoom), key)
	at := c.table.Token(keyBytes)
	where := Where{Range: e.rangeOf(c, at, keyBytes)}
	where.LSN = e.LSN(where.Range)
	q := c.pointRead(keyBytes, at, id)
	q.Now, q.Principal = e.opts.Clock.Wall().Unix(), o.Claimant
	var l *collector
	err := e.read(ctx, q, &where.Charge, func() command.Visitor {
		l = &collector{c: c, max: 1}
		return l
	})
	if err != nil {
		bad := refused(err)
		bad.Charge = where.Charge
		return nil, where, bad
	}
	r := &Result{Status: 200, Charge: where.Charge}
	switch {
	case len(l.items) == 0:
		r.Err = Errorf(404, 0, "Entity with the specified id does not exist in the system.")
		r.Status, r.Err.Charge = 404, where.Charge
	case ifNoneMatch != "" && matches(quoted(ifNoneMatch), l.items[0].quoted()):
		r.Status = 304
	default:
		r.Item = c.item(keyBytes, id, &l.items[0].stored)
	}
	return r, where, nil
}

// ridPage is the number of items per read when searching for a resource ID.
const ridPage = 1000

// IDOf finds the ID of an item by its resource ID. IDOf returns 404 if the logical partition has no such item. It
// scans the items of the logical partition.
func (e *Engine) IDOf(ctx context.Context, c *Container, key epk.Key, rid string) (string, error) {
	if bad := e.usable(c, key); bad != nil {
		return "", bad
	}
	keyBytes := epk.AppendKey(nil, key)
	f := &ridLookup{c: c, key: keyBytes, rid: rid}
	q := &command.Read{Table: c.table.ID, Key: keyBytes, Token: c.table.Token(keyBytes),
		Now:   e.opts.Clock.Wall().Unix(),
		Level: c.pointRead(keyBytes, 0, "").Level}
	var charge ru.Units
	for f.id == "" {
		f.looked = 0
		if err := e.read(ctx, q, &charge, func() command.Visitor { return f }); err != nil {
			return "", refused(err)
		}
		if f.looked < ridPage {
			break
		}
		q.Slices = []command.Slice{{Start: append(f.last[:len(f.last):len(f.last)], 0)}}
	}
	if f.id == "" {
		return "", Errorf(404, 0, "Entity with the specified resource id does not exist in the system.")
	}
	return f.id, nil
}
