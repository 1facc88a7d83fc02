// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// PriorityPayload is the key of the custom payload that sets the priority of a request. The value is "low" or "normal".
// Requests with the value "low" are rejected first. Cosmos DB uses the name "high" for normal priority.
const PriorityPayload = "Priority"

// IsLow reports whether the value of a PriorityPayload specifies low priority. It returns an error if the value is
// invalid.
func IsLow(value []byte) (bool, error) {
	switch strings.ToLower(string(value)) {
	case "low":
		return true, nil
	case "normal", "high":
		return false, nil
	}
	return false, dberr.Invalidf("Unknown priority %q: expected low or normal", value)
}

// Identity returns the role of the client, or the client's address if the client has no role.
func (c *Client) Identity() string {
	if c.User == "" {
		return c.Remote.Addr().String()
	}
	return c.User
}

// Claimant identifies the client for fair sharing of resources. The value is derived from Identity and is the same on
// all nodes.
func (c *Client) Claimant() fairshare.Principal {
	of := func(s string) uint32 { return uint32(token.Hash([]byte(s))) }
	return fairshare.Principal{User: of(c.Identity()), Connection: of(c.Remote.String())}
}

// claimantOf returns the claimant of a call if a table has provisioned throughput. Otherwise, it returns the zero
// value.
func (i *identity) claimantOf(c *Call, tables []*schema.Table) fairshare.Principal {
	if !(*i.engine.metered.Load()).hasAny(tables) {
		return fairshare.Principal{}
	}
	who := i.claimant
	who.Low = c.lowPriority || i.account == nil && i.engine.LowPriority(i.client.User)
	return who
}

// LowPriority reports whether all requests of a role have low priority.
func (e *Engine) LowPriority(role string) bool {
	a := e.opts.Authority
	return a != nil && role != "" && a.Subject(role).Low
}
