// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/netip"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Audited describes a completed request for Options.Audit. It must not be retained.
type Audited struct {
	// Key is the name of the key that signed the request: primary, secondary, or read-only. For a resource token, it is
	// DATABASE/USER/PERMISSION. It is empty if the request request had no valid signature.
	Key           string
	Local, Remote netip.AddrPort
	// Operation is the name of the operation in docs/compatibility-cosmos.md, or empty if the operation is unknown.
	// Reads reports whether the request changes nothing. Items reports whether the request concerns items instead of
	// databases and containers.
	Operation    string
	Reads, Items bool
	// Database and Container are names or resource IDs from the path. They are empty if the path does not contain
	// them.
	Database, Container string
	// Text consists of the method, the path, and the text of a query.
	Text   string
	Status int
}

// audit reports the request to Options.Audit.
func (x *exchange) audit(status int) {
	a := Audited{Key: x.signer, Status: status, Text: x.request.Method + " " + x.request.Target,
		Remote: x.conn.clientConn.remote}
	a.Local, _ = netip.ParseAddrPort(x.conn.clientConn.LocalAddr().String())
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
	x.server.opts.Auditor.WriteREST(&a)
}
