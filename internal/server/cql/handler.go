// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/session"
)

// NewSession starts a session for a client that has just been admitted (after authentication). It must be quick.
type NewSession func(client session.Client) Session

// Session executes what one connection asks for.
//
// Query, Prepare, Execute and Batch may be called at the same time: the goroutine of the connection calls them one
// after the other with MayBlock = false, workers call them beside it with MayBlock = true. Each either fills
// call.Result and returns session.Done, or sees to it that call.Complete is called later and returns session.Pending,
// or returns session.Offload (only if MayBlock is false). The context ends with the connection.
type Session interface {
	Query(ctx context.Context, call *session.Call) session.Status
	Prepare(ctx context.Context, call *session.Call) session.Status
	Execute(ctx context.Context, call *session.Call) session.Status
	Batch(ctx context.Context, call *session.Call) session.Status
	// Keyspace is the one that statements without a keyspace are in, empty if there is none. It may be called at any
	// time.
	Keyspace() string
	// Close is called once, when no further method will be called and none is running. Pending calls may still
	// complete.
	Close()
}

// Authenticator checks a name and a password. It may take its time: only the client that logs in waits. It bounds how
// much it does at a time.
type Authenticator interface {
	// Authenticate returns the role to act as for a client at an address, or a dberr.BadCredentials.
	Authenticate(ctx context.Context, from netip.Addr, user, password string) (access.Login, error)
}
