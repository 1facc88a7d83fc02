// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
)

// PriorityPayload is the key of the custom payload that says which requests are refused first: those whose value is
// low. normal is the other value; high is Cosmos DB's word for it.
const PriorityPayload = "Priority"

// IsLow reads the value of a PriorityPayload.
func IsLow(value []byte) (bool, error) {
	switch strings.ToLower(string(value)) {
	case "low":
		return true, nil
	case "normal", "high":
		return false, nil
	}
	return false, dberr.Invalidf("Unknown priority %q: it is low or normal", value)
}

// Who is the role of the client, or where it comes from if it has none.
func (c *Client) Identity() string {
	if c.User == "" {
		return c.Remote.Addr().String()
	}
	return c.User
}

// Claimant tells the client from others where something is scarce: by its role, or by where it comes from if it has
// none. It is the same on all nodes.
func (c *Client) Claimant() share.Claimant {
	of := func(s string) uint32 { return uint32(token.Hash([]byte(s))) }
	return share.Claimant{User: of(c.Identity()), Connection: of(c.Remote.String())}
}

// claimantOf is who asks for what a call is about, where a throughput bounds that of one of its tables.
func (s *Session) claimantOf(c *Call, tables []*schema.Table) share.Claimant {
	if !(*s.engine.metered.Load()).hasAny(tables) {
		return share.Claimant{}
	}
	who := s.claimant
	who.Low = c.lowPriority || s.account == nil && s.engine.LowPriority(s.client.User)
	return who
}

// LowPriority reports whether the requests of a role are of low priority, whatever they say themselves.
func (e *Engine) LowPriority(role string) bool {
	a := e.opts.Authority
	return a != nil && role != "" && a.Subject(role).Low
}
