// SPDX-License-Identifier: Apache-2.0

package write

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// checkTimestampGuardrail checks the timestamp of the current statement if the client set it.
func (x *changes) checkTimestampGuardrail(p *Plan, now time.Time) error {
	if x.stamp.timestamp == row.Unstamped {
		return nil
	}
	return x.guard.Timestamp(p.table.Name, x.stamp.timestamp, now.UnixMicro())
}

// checkValueGuardrails checks a value that is written to a column, or elements that are added to a collection.
func (x *changes) checkValueGuardrails(c *schema.Column, v []byte) error {
	if !c.Type.IsCollection() {
		return x.guard.Value(c.Name, len(v))
	}
	if c.Type.MultiCell() {
		for _, e := range c.Type.Elements(v) {
			if err := x.guard.Value(c.Name, len(e)); err != nil {
				return err
			}
		}
	} else if err := x.guard.Value(c.Name, len(v)); err != nil {
		return err
	}
	return x.guard.Collection(c.Name, c.Type.Count(v), len(v))
}

// checkListGuardrails checks a list operation that requires reading the list.
func (x *changes) checkListGuardrails(o *operation) error {
	switch o.kind {
	case setListElement:
		return x.guard.ListAssignment()
	case deleteListElement:
		return x.guard.ListRemoval()
	case discardElements:
		return x.guard.ListDiscard()
	}
	return nil
}
