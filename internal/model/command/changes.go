// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// These are the flags of an encoded ChangesRead.
const (
	changesKept = 1 << iota
	changesHorizon
	changesFlagsEnd
)

// changes appends the field of a change log read. Builds must understand the field, because a build that ignores the
// field would return rows.
func (a *appender) changes(c *ChangesRead) {
	v := []byte{codec.Bit(c.Kept)*changesKept | codec.Bit(c.Horizon)*changesHorizon}
	v = binary.AppendUvarint(v, uint64(max(c.After, 0)))
	a.Field(readChanges, true, binary.AppendUvarint(v, uint64(max(c.Upto, 0))))
}

func (r *reader) changes(f codec.Field) *ChangesRead {
	v := codec.NewReader(f.Value, ErrMalformed)
	flags := v.Byte()
	c := &ChangesRead{After: int64(v.UpTo(math.MaxInt64)), Upto: int64(v.UpTo(math.MaxInt64)),
		Kept: flags&changesKept != 0, Horizon: flags&changesHorizon != 0}
	if v.End() != nil || flags >= changesFlagsEnd {
		r.Fail()
	}
	return c
}

// String returns the name of the change for responses to container clients.
func (k Changed) String() string {
	switch k {
	case Created:
		return "create"
	case Replaced:
		return "replace"
	case Deleted:
		return "delete"
	case RangesDeleted:
		return "delete_range"
	}
	return "unknown"
}
