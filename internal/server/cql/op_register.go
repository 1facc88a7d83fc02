// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// register answers REGISTER: from now on, the connection receives the requested events.
func (c *conn) register(h cqlwire.Header, body []byte) {
	names, err := cqlwire.DecodeRegister(body)
	var mask eventMask
	for _, name := range names {
		m, ok := eventMasks[strings.ToUpper(name)]
		if !ok && err == nil {
			err = dberr.Protocolf("Invalid value '%s' for Type", name)
		}
		mask |= m
	}
	if err != nil {
		c.respondError(h.Stream, err)
		return
	}
	c.srv.events.add(c, mask)
	c.respond(h.Stream, cqlwire.OpReady, func(dst []byte) []byte { return dst })
}
