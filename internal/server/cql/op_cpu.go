// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/server/cqlwire"

// cpu answers opcode 0x7E, which is private to Ilion and available only to clients on the same machine. The response
// is the user and system CPU time of the process in microseconds, as 8 bytes. `ilion bench` divides the increase by
// the number of requests.
func (c *conn) cpu(h cqlwire.Header) {
	micros := cpuMicros()
	c.respond(h.Stream, cqlwire.OpCPU, func(dst []byte) []byte { return cqlwire.AppendCPU(dst, micros) })
}
