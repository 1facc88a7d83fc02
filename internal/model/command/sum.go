// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// indexedBytesMax is the maximum size of an indexed value, in bytes.
const indexedBytesMax = 65534

// sum is the new value of a column to which updates of one row have added. update is the last of the updates.
type sum struct {
	update *Update
	value  []byte
}

// sum adds to a number or text. Null remains null, as in Cassandra.
func (r *resolver) sum(u *Update, cells []row.Cell) error {
	if len(u.Args) == 0 || u.Args[0] == nil {
		return fmt.Errorf("an addition without a value: %w", ErrMalformed)
	}
	i := slices.IndexFunc(r.sums, func(s sum) bool { return s.update.Column == u.Column })
	if i < 0 {
		if len(cells) != 1 {
			return nil
		}
		i = len(r.sums)
		r.sums = append(r.sums, sum{value: cells[0].Value})
	}
	value, ok := u.Type.Kind.Sum(r.sums[i].value, u.Args[0])
	if !ok {
		return dberr.Invalidf("The sum is too long for a value of type %s", u.Type)
	}
	if value == nil {
		value = r.sums[i].value
	}
	r.sums[i] = sum{u, value}
	return nil
}

// putSums writes the sums and their index entries.
func (r *resolver) putSums(clustering []byte) error {
	for _, s := range r.sums {
		u := s.update
		b, ts := r.operandFor(u)
		b.CellAt(u.Column, nil, s.value, ts, u.TTL, u.Expiry)
		for _, id := range u.Args[1:] {
			value := s.value
			switch {
			case len(id) == 8:
				value = u.Type.AppendKey(nil, value, false)
				value = value[:min(uint32(len(value)), binary.BigEndian.Uint32(id[4:]))]
			case len(id) != 4:
				return fmt.Errorf("index ID of %d bytes: %w", len(id), ErrMalformed)
			case len(value) > indexedBytesMax:
				return dberr.Invalidf("A value of %d bytes cannot be indexed: the maximum is %d", len(value),
					indexedBytesMax)
			}
			r.indexed = append(r.indexed, Op{Kind: OpIndex, Clustering: clustering, Index: binary.BigEndian.Uint32(id),
				Value: value})
		}
	}
	return nil
}
