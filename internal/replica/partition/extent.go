// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Extent is a physical partition as the sender of a command knows it. Commands that name keys say with them where they
// belong. One that is for the whole of a partition carries the extent that it was planned for: after a split it would
// miss the rows that have moved.
type Extent struct {
	Epoch uint64
	Span  keys.Span
}

// ExtentOf is the extent of a partition in a map.
func ExtentOf(p *topology.Partition) Extent {
	return Extent{Epoch: p.Epoch, Span: p.Span.Keys(p.Table)}
}

// Extent is what the replica holds now.
func (r *Replica) Extent() Extent {
	s := r.state.Load()
	return Extent{Epoch: s.epoch, Span: s.keys}
}

// matches returns *WrongRange unless the replica holds exactly what the sender of a command believes.
func (r *Replica) matches(x Extent) error {
	own := r.Extent()
	if r.Frozen() != 0 || x.Epoch != own.Epoch || x.Span.Table != own.Span.Table ||
		!bytes.Equal(x.Span.Begin, own.Span.Begin) || !bytes.Equal(x.Span.End, own.Span.End) {
		return r.wrongRange()
	}
	return nil
}
