// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// NewSession starts a session for a client that has been admitted, after authentication. It must not block.
type NewSession func(client session.Client) Session

// Session executes the requests of one connection.
//
// Query, Prepare, Execute, and Batch may be called concurrently. The goroutine of the connection calls them
// sequentially with MayBlock = false, and workers call them at the same time with MayBlock = true. Each call fills
// call.Result and returns session.Done, or arranges that call.Complete is called later and returns session.Pending. If
// MayBlock is false, it may also return session.Offload. The context ends with the connection.
type Session interface {
	Query(ctx context.Context, call *session.Call) session.Status
	Prepare(ctx context.Context, call *session.Call) session.Status
	Execute(ctx context.Context, call *session.Call) session.Status
	Batch(ctx context.Context, call *session.Call) session.Status
	// Keyspace returns the keyspace of statements that do not specify a keyspace, or an empty string. Keyspace is safe
	// for concurrent use.
	Keyspace() string
	// Close is called once, when no method is running and no further method will be called. Pending calls may still
	// complete.
	Close()
}

// Authenticator checks a user name and a password. It may block, because only the client that logs in waits. It must
// limit its own concurrency.
type Authenticator interface {
	// Authenticate returns the role of a client at an address, or dberr.BadCredentials.
	Authenticate(ctx context.Context, from netip.Addr, user, password string) (access.Login, error)
}
