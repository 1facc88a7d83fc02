// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// lowPriority reports whether the custom payload at the start of a body requests low priority. A malformed payload is
// rejected where it is parsed.
func lowPriority(body []byte) bool {
	entries, _, err := cqlwire.SplitPayload(nil, body)
	for i := range entries {
		if err == nil && string(entries[i].Key) == session.PriorityPayload {
			low, err := session.IsLow(entries[i].Value)
			return low && err == nil
		}
	}
	return false
}

// low reports whether the client's role has low priority.
func (x *executor) low() bool {
	f, client := x.srv.opts.LowPriority, x.client
	return f != nil && client != nil && client.User != "" && !client.Account && f(client.User)
}
