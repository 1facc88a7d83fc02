// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// clients applies changes of roles and of the schema to the CQL clients of this node.
type clients struct {
	// server is set when the server has been created. The first change occurs before that.
	server atomic.Pointer[cql.Server]
	// authority is nil without authentication.
	authority *session.Authority
	log       *slog.Logger
	// loggedSlow is the time, in seconds, of the last log message about a slow client.
	loggedSlow atomic.Int64
}

// logClosed logs why the server closed a client connection. Unknown and slow clients may be numerous, so it logs at
// most one line per second at the default level. The metric ilion_cql_connections_slow_total counts slow clients.
func (c *clients) logClosed(remote netip.AddrPort, reason error) {
	if reason == nil {
		return
	}
	level, now, last := slog.LevelDebug, time.Now().Unix(), c.loggedSlow.Load()
	if errors.Is(reason, cql.ErrSlowClient) && last != now && c.loggedSlow.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	c.log.LogAttrs(context.Background(), level, "client connection closed", slog.String("client", remote.String()),
		slog.String("reason", reason.Error()))
}

// Overloaded reports whether this machine is overloaded. In that case, background work yields.
func (c *clients) Overloaded() bool {
	s := c.server.Load()
	return s != nil && s.Gate().Closed
}

// Pressed reports whether requests use too much memory.
func (c *clients) Pressed() bool {
	s := c.server.Load()
	return s != nil && s.Pressed()
}

// RolesChanged applies changed roles. It closes the connections of dropped roles and, if configured, of roles whose
// credentials have changed.
func (c *clients) RolesChanged(roles *access.State) {
	if c.authority == nil {
		return
	}
	c.authority.Set(roles)
	server := c.server.Load()
	if server == nil {
		return // no client has connected yet
	}
	if count := server.EndLogins(c.authority.Ended); count > 0 {
		c.log.LogAttrs(context.Background(), slog.LevelInfo, "closed connections of dropped or altered roles",
			slog.Int("connections", count))
	}
}

// announceSchema sends events for the schema changes that any node has made.
func (c *clients) announceSchema(p catalog.Publication) {
	server := c.server.Load()
	if server == nil {
		return
	}
	for _, e := range p.Events {
		server.SchemaChanged(session.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace,
			Name: e.Name, Args: e.ArgList()})
	}
}
