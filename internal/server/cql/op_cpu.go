// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/server/cqlwire"

// cpu answers opcode 0x7E, which is private to Ilion and for clients on the same machine alone: the CPU time of the
// process, user and system, in microseconds, as 8 bytes. `ilion bench` divides its growth by the number of requests.
func (c *conn) cpu(h cqlwire.Header) {
	micros := cpuMicros()
	c.respond(h.Stream, cqlwire.OpCPU, func(dst []byte) []byte { return cqlwire.AppendCPU(dst, micros) })
}
