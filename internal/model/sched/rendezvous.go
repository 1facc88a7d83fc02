// SPDX-License-Identifier: Apache-2.0

package sched

import "sync/atomic"

// Rendezvous synchronizes a call with the completion callback that it passed on. The completion may run on another
// goroutine, and may run before the call has returned. Therefore, neither the call nor the completion alone may
// release or reuse their shared state. The side that arrives second releases this state. A Rendezvous never blocks.
// The zero value is ready for one call.
type Rendezvous struct{ arrived atomic.Int32 }

// Reset prepares for another call. Both the call and the completion of the previous use must have arrived.
func (r *Rendezvous) Reset() { r.arrived.Store(0) }

// Arrive records that one side has finished its own work. The call and the completion must each call Arrive once.
// second reports whether the other side has already arrived. If second is true, the caller sees the writes of the
// other side and owns the shared state.
func (r *Rendezvous) Arrive() (second bool) { return r.arrived.Add(1) == 2 }
