// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Stats are the counters of a Server. They may be read at any time; somebody else turns them into metrics.
type Stats struct {
	// Connections is how many are open now; Accepted and Refused count since the start.
	Connections       atomic.Int64
	Accepted, Refused atomic.Int64
	// CrowdedOut counts the connections that were closed in their handshake because there were too many, Idle those
	// that were closed because their clients asked nothing, and Slow those whose clients did not read what they were
	// answered, or did not send the rest of what they had begun.
	CrowdedOut, Idle, Slow atomic.Int64
	// Requests counts messages from clients by opcode; those without a counter of their own are under opcode 0.
	Requests [cqlwire.OpAuthResponse + 1]atomic.Int64
	// Errors counts ERROR responses, Overloaded those among them that a bound of this package caused.
	Errors, Overloaded atomic.Int64
	// InFlight is the number of requests that execute other than in place now, InFlightBytes the memory that
	// Options.InFlightBytesMax bounds.
	InFlight, InFlightBytes atomic.Int64
	// Executed are the requests of sessions that were answered, Waited is how many nanoseconds all requests together
	// were in the sockets of busy connections, at most.
	Executed, Waited atomic.Int64
	// Working and Queued are requests on workers and waiting for one.
	Working, Queued atomic.Int64
	// Parked are requests that wait until their client reads what it was answered before.
	Parked atomic.Int64
	// Backlog is what Options.BacklogMax bounds, in bytes, but for small shares.
	Backlog atomic.Int64
	// BytesIn and BytesOut are counted at the socket (before encryption), Reads and Writes are system calls.
	BytesIn, BytesOut, Reads, Writes atomic.Int64
	// EventsSent counts pushed events, one per connection.
	EventsSent atomic.Int64
}

// tally collects the counts of one read, so that the shared counters are touched once per read and not once per
// request.
type tally struct {
	requests [cqlwire.OpAuthResponse + 1]uint32
	mask     uint32 // opcodes with a count
}

func (t *tally) count(op cqlwire.Opcode) {
	if int(op) >= len(t.requests) {
		op = 0
	}
	t.requests[op]++
	t.mask |= 1 << op
}

// flush adds the counts to s and returns how many requests there were.
func (t *tally) flush(s *Stats) (total int64) {
	for op := range t.requests {
		if t.mask&(1<<op) != 0 {
			n := int64(t.requests[op])
			total += n
			s.Requests[op].Add(n)
			t.requests[op] = 0
		}
	}
	t.mask = 0
	return total
}
