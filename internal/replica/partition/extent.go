// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Extent is a physical partition as known to the sender of a command. A command for a whole partition contains the
// extent for which it was planned. After a split, the extent differs, and the replica rejects the command because the
// command would miss rows.
type Extent struct {
	Epoch uint64
	Span  keys.Span
}

// ExtentOf returns the extent of a partition in a topology.
func ExtentOf(p *topology.Partition) Extent {
	return Extent{Epoch: p.Epoch, Span: p.Span.Keys(p.Table)}
}

// matches returns *WrongRange unless the replica has exactly the given extent.
func (r *Replica) matches(x Extent) error {
	own := r.Extent()
	if r.Frozen() != 0 || x.Epoch != own.Epoch || x.Span.Table != own.Span.Table ||
		!bytes.Equal(x.Span.Begin, own.Span.Begin) || !bytes.Equal(x.Span.End, own.Span.End) {
		return r.wrongRange()
	}
	return nil
}
