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

// Gate says who may see pages and give orders. What comes through the socket of the data directory is its owner's, who
// may do everything, and does not pass the gate.
type Gate struct {
	// Login returns what the role of a name and a password may do; nil where nobody has to log in. Its errors are
	// those of logins, and dberr.Unauthorized.
	Login func(ctx context.Context, from netip.Addr, name, password string) (*access.Subject, error)
	// Open are pages, without the slash, that everybody may see: metrics, status, history.
	Open []string
	// Socket is the path of the socket; empty if there is none: then, where nobody has to log in, orders are taken from
	// the machine itself.
	Socket string
	// Log hears of orders that were refused; nil: nobody does.
	Log *slog.Logger
}

// SocketHeader tells the tools of the machine itself where the socket is, when they are refused without credentials.
const SocketHeader = "Ilion-Socket"

// The permissions that are asked for are those by which Cassandra guards its management interface: SELECT ON ALL MBEANS
// to look, EXECUTE ON ALL MBEANS to give orders.
const (
	look  = access.Select
	order = access.Execute
	// enter is that of whoever has logged in: what a role may do there is asked elsewhere.
	enter access.Permission = 0
)

type roleKey struct{}

// Role is the role that a request which passed the gate has logged in as, empty where nobody has to.
func Role(ctx context.Context) string {
	role, _ := ctx.Value(roleKey{}).(string)
	return role
}

// named lets a request through that needs no more than a login, and says as whom; see Role. Where nobody has to log in
// it has to name this machine by an address: it may change data, and a page of somebody else, whose name was made to
// lead here, must not.
func (g *Gate) named(page string, h http.Handler) http.HandlerFunc {
	return g.wrap(page, enter, func(w http.ResponseWriter, r *http.Request) {
		if g == nil || g.Login == nil {
			if !isAddress(r.Host) {
				http.Error(w, "use the address of the node: names are taken where users have to log in",
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

// wrap lets requests that are allowed to through to h. p is the permission that the page takes.
func (g *Gate) wrap(page string, p access.Permission, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g == nil || slices.Contains(g.Open, page) {
			h(w, r)
			return
		}
		if local, code, text := g.judge(r, p); code != http.StatusOK {
			g.refuse(w, r, local, code, text)
			return
		}
		h(w, r)
	}
}

// admits reports whether a request may see keys, which are data: a page that is open to everybody shows none to
// whoever could not see it if it were not.
func (g *Gate) admits(r *http.Request) bool {
	if g == nil || !slices.Contains(g.Open, "status") {
		return true
	}
	_, code, _ := g.judge(r, look)
	return code == http.StatusOK
}

// judge returns 200, or the code of a refusal and its reason, and whether the request comes from the machine itself.
func (g *Gate) judge(r *http.Request, p access.Permission) (local bool, code int, text string) {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	from := a.Addr().Unmap()
	local = err == nil && from.IsLoopback()
	code, text = g.permit(r, from, local, p)
	return local, code, text
}

// permit returns 200, or the code of a refusal and its reason.
func (g *Gate) permit(r *http.Request, from netip.Addr, local bool, p access.Permission) (code int, text string) {
	if g.Login == nil {
		switch {
		case p == look || p == enter:
			return http.StatusOK, ""
		case g.Socket != "":
			return http.StatusForbidden,
				"orders are taken from the owner of the data directory, through the socket in it: " +
					"give --data DIR to the tool, on the node's machine"
		case !local:
			return http.StatusForbidden, "only from the machine itself"
		}
		return http.StatusOK, ""
	}
	name, password, ok := r.BasicAuth()
	switch {
	case !ok:
		return http.StatusUnauthorized,
			"this takes a user and a password: give --user and --password, or --data DIR on the node's machine"
	case r.TLS == nil && !local:
		return http.StatusForbidden, "a password is taken over TLS only, or from the machine itself"
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
		g.Log.LogAttrs(r.Context(), slog.LevelWarn, "order refused", slog.String("order", r.URL.Path),
			slog.String("role", name), slog.String("from", r.RemoteAddr), slog.String("reason", text))
	}
	http.Error(w, text, code)
}
