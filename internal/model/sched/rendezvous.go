// SPDX-License-Identifier: Apache-2.0

package sched

import "sync/atomic"

// Rendezvous is where a call meets the completion it was given. The completion may be told before the call has
// returned, and on another goroutine, so neither may give back or reuse what both work on: whichever arrives second
// does. Nobody waits in it. The zero value is ready for one call.
type Rendezvous struct{ arrived atomic.Int32 }

// Reset prepares for another call. Nobody may be about to arrive for the one before.
func (r *Rendezvous) Reset() { r.arrived.Store(0) }

// Arrive is called once by each of the two, when it has done what only it can do. second says that the other one was
// there before, and that what it wrote is visible: from now on all of it belongs to the caller.
func (r *Rendezvous) Arrive() (second bool) { return r.arrived.Add(1) == 2 }
