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

// invariants is the state for checking the invariants of a read in builds with the tag invariants.
type invariants struct {
	// last is the position of the most recently delivered logical partition.
	last topology.Position
	any  bool
}

// checkOrder checks that a range read delivers each logical partition once and in ring order (O1).
func (l *invariants) checkOrder(r *readRelay, t token.Token, key []byte) {
	if !invariant.Enabled || r.sub.Key != nil || r.sub.Index != nil {
		return
	}
	at := topology.At(t, bytes.Clone(key))
	invariant.Check(!l.any || l.last.Compare(at) < 0, "O1: partition %v is read after %v", at, l.last)
	l.last, l.any = at, true
}

// checkAnswer checks that an error does not claim an outcome that is unknown (O5).
func (e *routedRequest) checkAnswer(err error) error {
	if invariant.Enabled && e.maybeApplied {
		_, unavailable := errors.AsType[*dberr.Unavailable](err)
		invariant.Check(!unavailable && !overloaded(err) && !errors.Is(err, ErrStaleSchema),
			"O5: a write that may have been applied returned %v", err)
	}
	return err
}
