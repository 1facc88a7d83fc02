// SPDX-License-Identifier: Apache-2.0

package cql

import "github.com/ilion-db/ilion/internal/server/cqlwire"

// options answers OPTIONS, which drivers also send to check that a connection is alive.
func (c *conn) options(h cqlwire.Header) {
	c.respond(h.Stream, cqlwire.OpSupported, func(dst []byte) []byte { return append(dst, c.srv.supported...) })
}
