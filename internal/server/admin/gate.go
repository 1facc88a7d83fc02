// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Gate authorizes requests. It does not apply to requests through the admin socket in the data directory. The owner of
// the data directory may use all endpoints.
type Gate struct {
	// Login returns the subject for a user name and a password. If Login is nil, no login is required. Login returns
	// the errors of logins and dberr.Unauthorized.
	Login func(ctx context.Context, from netip.Addr, name, password string) (*access.Subject, error)
	// Open lists the endpoints that require no login, such as metrics, status, or history. The names have no slash.
	Open []string
	// Socket is the path of the admin socket. It is empty if the node has no admin socket. A node without an admin
	// socket that requires no login accepts commands from this machine.
	Socket string
	// Log receives messages about rejected commands. If Log is nil, the messages are discarded.
	Log *slog.Logger
}

// SocketHeader is the header that contains the path of the admin socket. A request from this machine without
// credentials receives the header when it is rejected.
const SocketHeader = "Ilion-Socket"

// Cassandra protects its management interface with these permissions. Reading requires SELECT ON ALL MBEANS, and
// commands require EXECUTE ON ALL MBEANS.
const (
	look  = access.Select
	order = access.Execute
	// enter requires only a login, because other code checks the permissions of the role.
	enter access.Permission = 0
)

type roleKey struct{}

// Role returns the role of a request that the gate has admitted. It returns an empty string if no login is required.
func Role(ctx context.Context) string {
	role, _ := ctx.Value(roleKey{}).(string)
	return role
}

// named admits requests that require only a login, and stores the role (see Role). If no login is required, the
// request must address this machine by an IP address or by localhost. Otherwise, a website whose name resolves to this
// machine could send a request that changes data.
func (g *Gate) named(page string, h http.Handler) http.HandlerFunc {
	return g.wrap(page, enter, func(w http.ResponseWriter, r *http.Request) {
		if g == nil || g.Login == nil {
			if !isAddress(r.Host) {
				http.Error(w, "invalid host name: use the address of the node. Host names are accepted only if "+
					"users must log in",
					http.StatusMisdirectedRequest)
				return
			}
			h.ServeHTTP(w, r)
			return
		}
		name, _, _ := r.BasicAuth()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, name)))
	})
}

// wrap passes authorized requests to h. p is the required permission.
func (g *Gate) wrap(page string, p access.Permission, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g == nil || slices.Contains(g.Open, page) {
			h(w, r)
			return
		}
		if local, code, text := g.authorize(r, p); code != http.StatusOK {
			g.refuse(w, r, local, code, text)
			return
		}
		h(w, r)
	}
}

// admits reports whether a request may read partition keys, which are data. If an endpoint requires no login, it shows
// keys only to clients that could read keys if it did require a login.
func (g *Gate) admits(r *http.Request) bool {
	if g == nil || !slices.Contains(g.Open, "status") {
		return true
	}
	_, code, _ := g.authorize(r, look)
	return code == http.StatusOK
}

// authorize returns 200, or the status and the reason of a rejection. It also reports whether the request comes from
// this machine.
func (g *Gate) authorize(r *http.Request, p access.Permission) (local bool, code int, text string) {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	from := a.Addr().Unmap()
	local = err == nil && from.IsLoopback()
	code, text = g.permit(r, from, local, p)
	return local, code, text
}

// permit returns 200, or the status and the reason of a rejection.
func (g *Gate) permit(r *http.Request, from netip.Addr, local bool, p access.Permission) (code int, text string) {
	if g.Login == nil {
		switch {
		case p == look || p == enter:
			return http.StatusOK, ""
		case g.Socket != "":
			return http.StatusForbidden,
				"only the owner of the data directory can run this command, through its admin socket: " +
					"use --data DIR on the node's machine"
		case !local:
			return http.StatusForbidden, "this command can only be run on the node's machine"
		}
		return http.StatusOK, ""
	}
	name, password, ok := r.BasicAuth()
	switch {
	case !ok:
		return http.StatusUnauthorized,
			"login required: use --user and --password, or --data DIR on the node's machine"
	case r.TLS == nil && !local:
		return http.StatusForbidden, "passwords are accepted only over TLS or from the node's machine"
	}
	who, err := g.Login(r.Context(), from, name, password)
	if err == nil && p != enter {
		err = who.Check(p, access.Resource{Kind: access.AllMBeans})
	}
	var wrong *dberr.BadCredentials
	var denied *dberr.Unauthorized
	switch {
	case errors.As(err, &wrong):
		return http.StatusUnauthorized, err.Error()
	case errors.As(err, &denied):
		return http.StatusForbidden, err.Error()
	case err != nil:
		return http.StatusServiceUnavailable, err.Error()
	}
	return http.StatusOK, ""
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, local bool, code int, text string) {
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Ilion", charset="UTF-8"`)
	}
	if local && g.Socket != "" {
		w.Header().Set(SocketHeader, g.Socket)
	}
	if g.Log != nil && r.Method != http.MethodGet {
		name, _, _ := r.BasicAuth()
		g.Log.LogAttrs(r.Context(), slog.LevelWarn, "command rejected", slog.String("order", r.URL.Path),
			slog.String("role", name), slog.String("from", r.RemoteAddr), slog.String("reason", text))
	}
	http.Error(w, text, code)
}
