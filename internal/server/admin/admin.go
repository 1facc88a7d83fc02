// SPDX-License-Identifier: Apache-2.0

// Package admin is how operators see and order a node over HTTP: health, readiness, metrics, status, and a few orders.
// It computes nothing of its own: status and metrics are read from the parts of the node (Node), orders are passed on
// (Options). Start at Handler, then Node.Status.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Options is what the door shows. All but Metrics may be nil in tests that do not ask for them.
type Options struct {
	// Ready returns nil when the node serves requests, else why it does not.
	Ready func() error
	// Healthy returns nil unless the node is broken beyond what a restart of the client can mend, else what is broken.
	Healthy func() error
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	// Status is served at /status as JSON; without keys it names no logical partition.
	Status func(keys bool) any
	// History is served at /history as JSON.
	History func() any
	// Advise says what is to be said about the design of a table, or of all if its name is empty; served at /advise as
	// JSON.
	Advise func(ctx context.Context, table string) (any, error)
	// Usage is served at /usage and /usage/history as JSON; both take ?table=ks.t.
	Usage func(ctx context.Context, table string, history bool) []TableUsage
	// Asked is what operators ask the cluster; nil: there are no such pages.
	Asked *Asked
	// Users are those that take most, which /usage shows, too.
	Users func(ctx context.Context) []usage.User
	// Compact merges all levels of the store; POST /compact waits for it.
	Compact func(ctx context.Context) error
	// Checkpoint writes a consistent copy of the data and returns where it is; POST /checkpoint.
	Checkpoint func() (string, error)
	// Order tells the cluster what a node is meant to be: what is drain, decommission or resume, node the beginning of
	// its identity. It returns what to expect; POST /node/drain and its like.
	Order func(ctx context.Context, what, node string) (string, error)
	// Split has a physical partition split and says what to expect; POST /partition/split.
	Split func(ctx context.Context, o SplitOrder) (string, error)
	// Move has a replica of a physical partition moved and says what to expect; POST /partition/move.
	Move func(ctx context.Context, o MoveOrder) (string, error)
	// Merge has two neighbouring physical partitions merge and says what to expect; POST /partition/merge.
	Merge func(ctx context.Context, o MergeOrder) (string, error)
	// Cancel takes back a merge or a move of a physical partition; POST /partition/cancel.
	Cancel func(ctx context.Context, o CancelOrder) (string, error)
	// Verify compares a page of a view or an index with its table; POST /verify, answered as JSON.
	Verify func(ctx context.Context, o VerifyOrder) (*VerifyPage, error)
	// Upgrade raises the feature level to the newest that all nodes understand, and says which that is; POST /upgrade.
	Upgrade func(ctx context.Context) (string, error)
	// Archive carries out an order of a backup or a restore, such as backup/begin; POST /backup/begin and its like, for
	// tools.
	Archive func(ctx context.Context, what string, body []byte) ([]byte, error)
	// Keys are the keys of the REST surface, shown at /keys as JSON; nil: there is no such page. It is for the owner of
	// the data directory alone.
	Keys func() *Keys
	// Page is served below /ui/, of which /ui/explore is for everybody who has logged in, as Role; nil: there is none.
	Page http.Handler
	// Profile adds Go's profiles under /debug/pprof/, which take what orders take: they show statements' shapes and
	// cost processor time.
	Profile bool
}

// Keys are what clients of the REST surface sign requests with, and some of CQL log in with, in base64. One that is
// empty is not there yet.
type Keys struct {
	// Endpoint is the URL where the surface is reached, CQL the address where a key is a password; empty where this
	// node has none.
	Endpoint  string `json:"endpoint"`
	CQL       string `json:"cql,omitempty"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	ReadOnly  string `json:"readOnly"`
}

// SplitOrder is an order to split a physical partition.
type SplitOrder struct {
	// Table is its name with the keyspace, Partition the id of the partition.
	Table     string
	Partition uint64
	// At is the token that the new partition begins with, in decimal; empty for the middle of the rows.
	At string
	// DryRun says what would be done and does nothing; Wait returns when it is done; Now does not leave a partition
	// alone that has split lately.
	DryRun, Wait, Now bool
}

// splitOrder reads an order off a request.
func splitOrder(r *http.Request) (o SplitOrder, err error) {
	q := r.URL.Query()
	if o.Partition, err = strconv.ParseUint(q.Get("partition"), 10, 64); err != nil {
		return o, fmt.Errorf("%q is not the id of a partition: see ilion partition list", q.Get("partition"))
	}
	o.Table, o.At = q.Get("table"), q.Get("at")
	o.DryRun, o.Wait, o.Now = q.Get("dry-run") == "true", q.Get("wait") == "true", q.Get("now") == "true"
	return o, nil
}

// Handler serves /healthz (200 or 503) and /readyz (200 or 503) to everybody, and to those whom the gate lets through
// /metrics (Prometheus text), /status, /history and /advise (JSON), POST /checkpoint and the other orders, and profiles
// if asked for. Without a gate everybody is let through.
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
	// What a browser sends because of another site's page comes from the machine itself, too, and is no order of
	// whoever sits there.
	return http.NewCrossOriginProtection().Handler(byAddress(mux))
}

// index is what the door says of itself.
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

// byAddress refuses requests from the machine itself that name it as a browser does for a page of somebody else, whose
// name was made to lead here: DNS rebinding.
func byAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := netip.ParseAddrPort(r.RemoteAddr)
		if err == nil && a.Addr().Unmap().IsLoopback() && !isAddress(r.Host) {
			http.Error(w, "the Host header is none of this machine's: use its address, or localhost",
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
	// A client that went away in the middle of its answer is nobody to report to.
	_ = enc.Encode(page)
}

// write answers with a line, or with 503 and the error.
func write(w http.ResponseWriter, answer string, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = err.Error()
	}
	// A client that went away in the middle of its answer is nobody to report to.
	_, _ = w.Write([]byte(answer + "\n"))
}
