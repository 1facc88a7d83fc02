// SPDX-License-Identifier: Apache-2.0

// Package admin serves the HTTP interface for operators: health, readiness, metrics, status, and administrative
// commands. It computes nothing itself: status and metrics come from the parts of the node (Node), and commands are
// passed to functions (Options). Start reading at Handler, then Node.Status.
package admin

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Options holds the functions that the endpoints call. In tests, all fields except Metrics may be nil.
type Options struct {
	// Ready returns nil if the node serves requests, or the reason why not.
	Ready func() error
	// Healthy returns nil unless the node has failed permanently; otherwise it returns the failure.
	Healthy func() error
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	// Status is served at /status as JSON. Without keys, it contains no logical partition keys.
	Status func(keys bool) any
	// History is served at /history as JSON.
	History func() any
	// Advise analyzes the design of a table, or of all tables if the name is empty. It is served at /advise as JSON.
	Advise func(ctx context.Context, table string) (any, error)
	// Usage is served at /usage and /usage/history as JSON. Both accept ?table=ks.t.
	Usage func(ctx context.Context, table string, history bool) []TableUsage
	// Asked serves the cluster-wide diagnostics; nil disables these endpoints.
	Asked *Asked
	// Users returns the users with the highest consumption, for /usage.
	Users func(ctx context.Context) []usage.User
	// Compact compacts all levels of the store. POST /compact waits for it.
	Compact func(ctx context.Context) error
	// Checkpoint writes a consistent copy of the data and returns its path. POST /checkpoint calls it.
	Checkpoint func() (string, error)
	// Order drains, decommissions, or resumes a node; the argument what names the operation. node is a prefix of the
	// node ID. The function returns a message. POST /node/drain and similar endpoints call it.
	Order func(ctx context.Context, what, node string) (string, error)
	// Split starts the split of a physical partition and returns a message. POST /partition/split calls it.
	Split func(ctx context.Context, o operations.Split) (string, error)
	// Move starts the move of a replica and returns a message. POST /partition/move calls it.
	Move func(ctx context.Context, o operations.Move) (string, error)
	// Merge starts the merge of two adjacent physical partitions and returns a message. POST /partition/merge calls
	// it.
	Merge func(ctx context.Context, o operations.Merge) (string, error)
	// Cancel cancels a pending operation of a physical partition. POST /partition/cancel calls it.
	Cancel func(ctx context.Context, o operations.Cancel) (string, error)
	// Verify compares a page of a view or an index with its table. POST /verify calls it and returns the result as
	// JSON.
	Verify func(ctx context.Context, o view.VerifyRequest) (*view.VerifyResponse, error)
	// Upgrade raises the feature level to the newest level that all nodes support, and returns a message with the
	// level. POST /upgrade calls it.
	Upgrade func(ctx context.Context) (string, error)
	// Archive executes a request of the backup and restore tools, such as backup/begin. POST /backup/begin and similar
	// endpoints call it.
	Archive func(ctx context.Context, what string, body []byte) ([]byte, error)
	// Keys returns the keys of the REST API for /keys, as JSON; nil disables the endpoint. Only the owner of the data
	// directory has access.
	Keys func() *Keys
	// Page serves the web UI below /ui/; nil disables it. /ui/explore is available to every role that has logged in
	// (Role).
	Page http.Handler
	// Profile enables Go's profiles under /debug/pprof/. They require the permission for commands, because they reveal
	// the structure of statements and use processor time.
	Profile bool
}

// Keys are the keys with which REST clients sign requests and with which some CQL clients log in, in base64. A key is
// empty if it has not been generated yet.
type Keys struct {
	// Endpoint is the URL of the REST API, and CQL the address that accepts a key as a password. Each is empty if the
	// node does not serve it.
	Endpoint  string `json:"endpoint"`
	CQL       string `json:"cql,omitempty"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	ReadOnly  string `json:"readOnly"`
}

// Handler returns the HTTP handler. It serves /healthz and /readyz (200 or 503) to all clients. To clients that the
// gate admits it serves /metrics (Prometheus text), /status, /history and /advise (JSON), POST /checkpoint and the
// other commands, and profiles if enabled. A nil gate admits all clients.
func Handler(o Options, gate *Gate) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", check(o.Healthy))
	mux.HandleFunc("GET /readyz", check(o.Ready))
	metrics := promhttp.HandlerFor(withFormerNames(o.Metrics), promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", gate.wrap("metrics", look, metrics.ServeHTTP))
	mux.HandleFunc("GET /status", gate.wrap("status", look, func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, o.Status(gate.admits(r)))
	}))
	mux.HandleFunc("GET /history", gate.wrap("history", look, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, o.History())
	}))
	mux.HandleFunc("GET /advise", gate.wrap("advise", look, func(w http.ResponseWriter, r *http.Request) {
		reports, err := o.Advise(r.Context(), r.URL.Query().Get("table"))
		if err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, reports)
	}))
	mux.HandleFunc("GET /usage", gate.wrap("usage", look, usagePage(&o, false)))
	mux.HandleFunc("GET /usage/history", gate.wrap("usage", look, usagePage(&o, true)))
	orders := map[string]func(*http.Request) (string, error){
		"compact":    func(r *http.Request) (string, error) { return "ok", o.Compact(r.Context()) },
		"checkpoint": func(*http.Request) (string, error) { return o.Checkpoint() },
		"upgrade":    func(r *http.Request) (string, error) { return o.Upgrade(r.Context()) },
	}
	orders["partition/split"] = func(r *http.Request) (string, error) {
		split, err := splitOrder(r)
		if err != nil {
			return "", err
		}
		return o.Split(r.Context(), split)
	}
	orders["partition/merge"] = func(r *http.Request) (string, error) {
		merge, err := mergeOrder(r)
		if err != nil {
			return "", err
		}
		return o.Merge(r.Context(), merge)
	}
	orders["partition/cancel"] = func(r *http.Request) (string, error) {
		cancel, err := cancelOrder(r)
		if err != nil {
			return "", err
		}
		return o.Cancel(r.Context(), cancel)
	}
	orders["partition/move"] = func(r *http.Request) (string, error) {
		move, err := moveOrder(r)
		if err != nil {
			return "", err
		}
		return o.Move(r.Context(), move)
	}
	for _, what := range []string{"drain", "decommission", "resume"} {
		orders["node/"+what] = func(r *http.Request) (string, error) {
			return o.Order(r.Context(), what, r.URL.Query().Get("node"))
		}
	}
	for path, f := range orders {
		mux.HandleFunc("POST /"+path, gate.wrap(path, order, func(w http.ResponseWriter, r *http.Request) {
			answer, err := f(r)
			write(w, answer, err)
		}))
	}
	mux.HandleFunc("POST /verify", gate.wrap("verify", order, verifyPage(&o)))
	for _, what := range archiveOrders {
		mux.HandleFunc("POST /"+what, gate.wrap(what, order, archiveOrder(&o, what)))
	}
	addAsked(mux, gate, o.Asked)
	if o.Keys != nil {
		mux.HandleFunc("GET /keys", gate.wrap("keys", order, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, o.Keys())
		}))
	}
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", gate.wrap("debug", order, pprof.Index))
		mux.HandleFunc("GET /debug/pprof/profile", gate.wrap("debug", order, pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/trace", gate.wrap("debug", order, pprof.Trace))
	}
	if o.Page != nil {
		mux.HandleFunc("GET /ui/", gate.wrap("page", look, o.Page.ServeHTTP))
		mux.Handle("GET /ui/assets/", o.Page)
		explore := gate.named("explore", o.Page)
		mux.HandleFunc("GET /ui/explore", explore)
		mux.HandleFunc("POST /ui/explore", explore)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if o.Page != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, "/ui/", http.StatusSeeOther)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(index))
	})
	// Requests that a browser sends on behalf of another website also come from this machine, and must not count as
	// commands of its user.
	return http.NewCrossOriginProtection().Handler(byAddress(mux))
}

// index is the response to a request without a path.
const index = `Ilion

/healthz  is the node sound
/readyz   does it serve requests
/metrics  Prometheus metrics
/status   the node, its tables and partitions as JSON
/history  splits, merges and moves of partitions that have ended, as JSON
/advise?table=..  what is wrong with the design of a table, or of all, as JSON: samples rows
/usage    what is spent at physical partitions now, and the hottest and largest keys, as JSON; ?table=ks.t
/usage/history  what was spent by minute in the last hour, as JSON; ?table=ks.t
/table?table=ks.t  one view of a table: sizes, tombstones, keys, latencies, indexes, views, as JSON
/ring     the ring that drivers see, beside what nodes really hold, as JSON
/endpoints?keyspace=..&table=..&key=..  where a logical partition is, as JSON
/sessions connections of clients that have most to do, as JSON; ?limit=..
/slow     requests that took long, as JSON
/ui/      all of this for a browser, live, and a place to try statements

Orders, for the owner of the data directory by its socket, or with a user and a password:
POST /checkpoint  write a consistent copy of the data beside it
POST /compact     merge all levels of the store now
POST /upgrade     raise the feature level: the builds before cannot come back
POST /partition/split?table=..&partition=..&at=..&dry-run=..&wait=..&now=..  split a physical partition
POST /partition/merge?table=..&partition=..&with=..&dry-run=..&wait=..&now=..  merge two neighbours
POST /partition/cancel?table=..&partition=..  take back a merge or a move
POST /partition/move?table=..&partition=..&from=..&to=..&hold=..&dry-run=..&wait=..  move a replica
POST /sessions/cancel?id=..      close the connection of a client
POST /node/drain?node=..         move leaders away from a node
POST /node/decommission?node=..  move everything away from a node
POST /node/resume?node=..        cancel drain or decommission
`

// byAddress rejects requests from this machine with a host name other than an address or localhost: an attacker may
// have pointed the name of a website to this machine (DNS rebinding).
func byAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := netip.ParseAddrPort(r.RemoteAddr)
		if err == nil && a.Addr().Unmap().IsLoopback() && !isAddress(r.Host) {
			http.Error(w, "invalid Host header: use the address of this machine, or localhost",
				http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}

func check(f func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { write(w, "ok", f()) }
}

func writeJSON(w http.ResponseWriter, page any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// A client that disconnected cannot receive an error.
	_ = enc.Encode(page)
}

// write responds with a line of text, or with 503 and the error.
func write(w http.ResponseWriter, answer string, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = err.Error()
	}
	// A client that disconnected cannot receive an error.
	_, _ = w.Write([]byte(answer + "\n"))
}
