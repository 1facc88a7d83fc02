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

// capped limits the cost of a scan to Options.MaxCharge. It counts the examined rows in the same way as the replica.
// Therefore, the read stops at the first row that exceeds the limit.
type capped struct {
	*scan
	// c is the command. The Continued flag of c applies to the current physical partition. meter counts the cost of the
	// current physical partition.
	c     command.Read
	meter ru.Meter
}

func (s *scan) readCapped(ctx context.Context, r Reader) error {
	v := capped{scan: s, c: s.request.cmd}
	if err := v.check(); err != nil {
		return err
	}
	if err := r.Read(ctx, &s.request.cmd, &v); err != nil {
		return cmp.Or(s.err, err)
	}
	if s.page.Charge > s.options.MaxCharge {
		return ru.Exceeded(s.page.Charge, s.options.MaxCharge)
	}
	return s.endCommand()
}

// check returns an error if the cost of the read, including the next row, exceeds the limit.
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
