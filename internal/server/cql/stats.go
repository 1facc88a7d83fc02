// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Stats holds the counters of a Server. The counters are safe for concurrent reads.
type Stats struct {
	// Connections is the number of open connections. Accepted and Refused are totals since the start of the server.
	Connections       atomic.Int64
	Accepted, Refused atomic.Int64
	// CrowdedOut counts connections that were closed during the handshake because too many handshakes were in
	// progress. Idle counts connections that were closed because they were idle. Slow counts connections whose clients
	// did not read responses or did not complete a message.
	CrowdedOut, Idle, Slow atomic.Int64
	// Requests counts requests by opcode. Opcode 0 includes all opcodes without a counter.
	Requests [cqlwire.OpAuthResponse + 1]atomic.Int64
	// Errors counts ERROR responses. Overloaded counts the ERROR responses that a limit of this package caused.
	Errors, Overloaded atomic.Int64
	// InFlight is the number of asynchronous requests. InFlightBytes is the memory that Options.InFlightBytesMax
	// limits.
	InFlight, InFlightBytes atomic.Int64
	// Executed is the number of requests that sessions have completed. Waited is the maximum total time, in
	// nanoseconds, for which requests were in the sockets of busy connections.
	Executed, Waited atomic.Int64
	// Working and Queued are the numbers of requests on workers and in the worker queue.
	Working, Queued atomic.Int64
	// Parked is the number of requests that wait until their client reads earlier responses.
	Parked atomic.Int64
	// Backlog is the output, in bytes, that Options.BacklogMax limits. It does not include small shares.
	Backlog atomic.Int64
	// BytesIn and BytesOut count bytes at the socket, before decryption and after encryption. Reads and Writes count
	// system calls.
	BytesIn, BytesOut, Reads, Writes atomic.Int64
	// EventsSent counts the sent events of all connections.
	EventsSent atomic.Int64
}

// tally collects the counts of one read. The shared counters are therefore updated only once per read.
type tally struct {
	requests [cqlwire.OpAuthResponse + 1]uint32
	mask     uint32 // set of opcodes with a count
}

func (t *tally) count(op cqlwire.Opcode) {
	if int(op) >= len(t.requests) {
		op = 0
	}
	t.requests[op]++
	t.mask |= 1 << op
}

// flush adds the counts to s and returns the number of requests.
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

// charges collects the completed requests of a connection and their costs. The shared counters are therefore updated
// only once per write. output.mu guards charges.
type charges struct {
	user *usage.UserCounter // nil during the handshake
	// cost is the average cost of a request.
	cost ru.Units
	// did is the number of completed requests that have not been counted yet. refused is the number of rejected
	// requests among them. units is the sum of their costs.
	did     int64
	refused uint64
	units   ru.Units
}

// add counts a completed request.
func (c *charges) add(u ru.Units) {
	c.did++
	c.units += u
	c.cost += (u - c.cost) / 8
}

// report adds the counts to the counts of the server and of the user.
func (c *charges) report(s *Stats) {
	if c.did > 0 {
		s.Executed.Add(c.did)
		c.user.Add(uint64(c.did), c.refused, c.units)
		c.did, c.refused, c.units = 0, 0, 0
	}
}
