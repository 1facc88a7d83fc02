// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/netip"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Audited is a request that is over, as Options.Audit is told of it. It is not to be kept.
type Audited struct {
	// Key is the key that it was signed with, primary, secondary or read-only; empty if it had no valid signature.
	Key           string
	Local, Remote netip.AddrPort
	// Operation is what docs/compatibility-cosmos.md calls it, empty where there is none; Reads says that it changes
	// nothing, Items that it is about items and not about what holds them.
	Operation    string
	Reads, Items bool
	// Database and Container are what the path names, by id or resource id; empty where it does not.
	Database, Container string
	// Text is the method and the path, and the text of a query.
	Text   string
	Status int
}

// audit tells of the request.
func (x *exchange) audit(status int) {
	a := Audited{Key: x.signer, Status: status, Text: x.request.Method + " " + x.request.Target,
		Remote: x.conn.guest.remote}
	a.Local, _ = netip.ParseAddrPort(x.conn.guest.LocalAddr().String())
	if op := x.operation; op != nil {
		a.Operation, a.Reads, a.Items = op.name, op.reads, op.kind == items || op.kind == byKey
		if strings.HasPrefix(op.name, "query ") && len(x.body) > 0 {
			if text := document.View(x.body).Get("query"); text.Kind() == document.String {
				a.Text += " " + text.Str()
			}
		}
	}
	if x.target != nil {
		a.Database, a.Container = x.target.database(), x.target.container()
	}
	x.server.opts.Audit(&a)
}
