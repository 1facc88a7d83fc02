// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// NewSession starts a session for a client that has been admitted, after authentication. NewSession must not block.
type NewSession func(client session.Client) Session

// Session executes the requests of one connection.
//
// Query, Prepare, Execute, and Batch may be called concurrently. The goroutine of the connection calls them
// sequentially with MayBlock = false. Workers call them concurrently with MayBlock = true. Each call must either fill
// call.Result and return session.Done, or ensure that call.Complete is called later and return session.Pending. If
// MayBlock is false, a call may also return session.Offload. The context ends with the connection.
type Session interface {
	Query(ctx context.Context, call *session.Call) session.Status
	Prepare(ctx context.Context, call *session.Call) session.Status
	Execute(ctx context.Context, call *session.Call) session.Status
	Batch(ctx context.Context, call *session.Call) session.Status
	// Keyspace returns the keyspace of statements that do not specify a keyspace, or an empty string. Keyspace is safe
	// for concurrent use.
	Keyspace() string
	// Close is called once, when no method is running. No other method is called afterward. Pending calls may still
	// complete.
	Close()
}

// Authenticator checks a user name and a password. Authenticate may block, because only the client that logs in waits.
// An implementation must limit its own concurrency.
type Authenticator interface {
	// Authenticate returns the role of a client at an address. It returns dberr.BadCredentials if the login fails.
	Authenticate(ctx context.Context, from netip.Addr, user, password string) (access.Login, error)
}
