// SPDX-License-Identifier: Apache-2.0

// Package coordinator sends commands where their data is: it finds the physical partition of a key or of a range, asks a
// replica of it, and asks again elsewhere when the map has changed meanwhile.
//
// Guarantees: (O1) a read of a range sees every partition it intersects once, in ring order, whatever the number of physical
// partitions; (O2) a client never sees that a partition has moved, only that a deadline has passed; (O3) an atomic batch is applied as
// a whole or not at all; (O4) no more requests than Options.RequestsMax are under way. It knows nothing of CQL and evaluates no
// condition. Start at Coordinator, then read.go and write.go.
//
// Consistency levels: on a node that stands alone the one replica serves all levels alike, and does more than any of them asks for:
// reads see every write acknowledged before. Whether a level is allowed for a statement is the session's business.
package coordinator

import "github.com/ilion-db/ilion/internal/model/dberr"

// WriteOptions say how a write is to be done.
type WriteOptions struct {
	Level dberr.Consistency
	// Atomic asks that all mutations are applied or none, as a logged batch does.
	Atomic bool
	// Type is the write type that errors carry: SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER or CAS. Empty means SIMPLE.
	Type string
}
