// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// capped stands before a scan that must not cost more than Options.MaxCharge. It counts what is examined, as the
// replica does, so the read stops at the row that is too much, whichever physical partition it is in.
type capped struct {
	*scan
	// c is the command, and continued in the physical partition at hand; meter counts there.
	c     command.Read
	meter ru.Meter
}

// readCapped sends one command.
func (s *scan) readCapped(ctx context.Context, r Reader) error {
	v := capped{scan: s, c: s.cmd}
	if err := v.check(); err != nil {
		return err
	}
	if err := r.Read(ctx, &s.cmd, &v); err != nil {
		return cmp.Or(s.err, err)
	}
	if s.page.Charge > s.options.MaxCharge {
		return ru.Exceeded(s.page.Charge, s.options.MaxCharge)
	}
	return s.endCommand()
}

// check refuses to go on if what was read costs too much, or would with the next row.
func (v *capped) check() error {
	if u := v.page.Charge + v.meter.Price(&v.c); u > v.options.MaxCharge {
		v.err = ru.Exceeded(u, v.options.MaxCharge)
		return v.err
	}
	return nil
}

// Charge implements ru.Charged.
func (v *capped) Charge(u ru.Units) {
	v.scan.Charge(u)
	v.meter, v.c.Continued = ru.Meter{}, false
}

// Partition implements command.Visitor.
func (v *capped) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	v.meter.Partition(&v.c, key, static)
	if err := v.check(); err != nil {
		return command.Stop, err
	}
	return v.scan.Partition(t, key, static)
}

// Row implements command.Visitor.
func (v *capped) Row(clustering []byte, r *row.Row) (command.Step, error) {
	v.meter.Row(clustering, r)
	if err := v.check(); err != nil {
		return command.Stop, err
	}
	return v.scan.Row(clustering, r)
}
