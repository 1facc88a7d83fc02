// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// priorityPayload is the key of the custom payload that says which requests are refused first: those whose value is
// low. normal is the other value; high is Cosmos DB's word for it.
const priorityPayload = "Priority"

// priorityOf reads the priority of a request; given is false if it has none.
func priorityOf(value []byte) (low bool, err error) {
	switch strings.ToLower(string(value)) {
	case "low":
		return true, nil
	case "normal", "high":
		return false, nil
	}
	return false, dberr.Invalidf("Unknown priority %q: it is low or normal", value)
}

// lowPriority is the priority of a request by the custom payload that its body begins with, or otherwise if that does
// not say. What cannot be read is refused where it is parsed.
func lowPriority(body []byte, otherwise bool) bool {
	entries, _, err := cqlwire.SplitPayload(nil, body)
	for i := range entries {
		if err == nil && string(entries[i].Key) == priorityPayload {
			if low, err := priorityOf(entries[i].Value); err == nil {
				return low
			}
		}
	}
	return otherwise
}

// low reports whether the client's role has low priority.
func (c *conn) low() bool {
	f, client := c.srv.opts.LowPriority, c.client.Load()
	return f != nil && client != nil && client.User != "" && f(client.User)
}
