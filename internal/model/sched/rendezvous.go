// SPDX-License-Identifier: Apache-2.0

package sched

import "sync/atomic"

// Rendezvous synchronizes a call with the completion callback that it passed on. The completion may run before the call
// has returned, and on another goroutine. Neither may therefore release or reuse their shared state; the one that
// arrives second does. A Rendezvous never blocks. The zero value is ready for one call.
type Rendezvous struct{ arrived atomic.Int32 }

// Reset prepares for another call. The call and the completion of the previous use must both have arrived.
func (r *Rendezvous) Reset() { r.arrived.Store(0) }

// Arrive is called once by each of the two, after its own work. second reports whether the other has already arrived.
// Its writes are then visible, and the shared state belongs to the caller.
func (r *Rendezvous) Arrive() (second bool) { return r.arrived.Add(1) == 2 }
