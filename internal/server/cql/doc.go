// SPDX-License-Identifier: Apache-2.0

// Package cql is the door for CQL clients: it listens, keeps connections, negotiates version, framing, compression and
// identity, hands requests to a Session and sends back what it answers.
//
// Guarantees: (CQ1) every request gets exactly one response on its stream, unless the connection ends; responses leave
// in any order. (CQ2) Nothing a client does, or fails to do, makes the server hold more for it than the bounds in
// Options: a connection that does not read is not read from, a request beyond a bound is answered OVERLOADED. (CQ3) An
// event reaches the output of each registered connection before the result of the statement that caused it, if the
// session announces it first. (CQ4) An idle connection owns one parked goroutine and no buffer.
//
// How a request travels: one goroutine per connection waits until its socket is readable, takes a pooled buffer, reads,
// and executes all complete requests of that read one after the other, in place; their responses go to one output
// buffer and leave in one write. What a session cannot answer at once completes later, from elsewhere, and is flushed
// by a goroutine that lives as long as there is something to write. What may take long goes to a bounded pool of
// workers.
//
// The package knows nothing of statements, and of the protocol's bytes only what package cqlwire tells. Start at
// Server, then conn.serve, then dispatch.go; each opcode has a file of its own (op_*.go).
package cql
