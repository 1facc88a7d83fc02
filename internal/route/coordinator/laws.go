// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// laws is what a read keeps to check itself, with the build tag invariants.
type laws struct {
	// last is the logical partition that was passed on last, if any was.
	last topology.Position
	any  bool
}

// passed checks that a read of a range passes each logical partition on once, in ring order (O1).
func (l *laws) passed(r *relay, t token.Token, key []byte) {
	if !invariant.Enabled || r.sub.Key != nil || r.sub.Index != nil {
		return
	}
	at := topology.At(t, bytes.Clone(key))
	invariant.Check(!l.any || l.last.Compare(at) < 0, "O1: partition %v is read after %v", at, l.last)
	l.last, l.any = at, true
}

// answered checks that an answer leaves open what is open (O5).
func (e *errand) answered(err error) error {
	if invariant.Enabled && e.maybe {
		_, unavailable := errors.AsType[*dberr.Unavailable](err)
		invariant.Check(!unavailable && !overloaded(err) && !errors.Is(err, ErrStaleSchema),
			"O5: a write that may have been carried out is answered with %v", err)
	}
	return err
}
