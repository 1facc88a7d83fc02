// SPDX-License-Identifier: Apache-2.0

// Package admin serves the HTTP interface for operators. The interface provides health, readiness, metrics, status,
// and administrative commands. The package does not compute data. The parts of the node provide status and metrics
// (Reporter) and execute the commands (Options). Start reading at Handler, and continue with Reporter.Status.
package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/regions"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler serves the endpoints.
type handler struct {
	Options
	gate *Gate
	mux  *http.ServeMux
}

// Handler returns the HTTP handler. All clients have access to /healthz and /readyz, whose status is 200 or 503.
// Clients that the gate admits have access to /metrics (Prometheus text), to /status, /history, and /advise (JSON),
// and to POST /checkpoint and the other commands. They also have access to profiles if profiles are enabled. A nil
// gate admits all clients.
func Handler(o Options, gate *Gate) http.Handler {
	h := &handler{o, gate, http.NewServeMux()}
	h.mux.HandleFunc("GET /healthz", h.health)
	h.mux.HandleFunc("GET /readyz", h.health)
	h.addReports()
	if o.Diagnostics != nil {
		h.addDiagnostics()
	}
	h.addPartitionCommands()
	h.addCommands()
	if o.Keys != nil {
		h.mux.HandleFunc("GET /keys", gate.wrap("keys", order, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, o.Keys.show())
		}))
	}
	if o.Profile {
		h.mux.HandleFunc("GET /debug/pprof/", gate.wrap("debug", order, pprof.Index))
		h.mux.HandleFunc("GET /debug/pprof/profile", gate.wrap("debug", order, pprof.Profile))
		h.mux.HandleFunc("GET /debug/pprof/trace", gate.wrap("debug", order, pprof.Trace))
	}
	h.addPage()
	// A browser on this machine may send requests for another website. Such requests must not be treated as commands
	// of the user.
	return http.NewCrossOriginProtection().Handler(byAddress(h.mux))
}

// get adds an endpoint that requires the permission to read.
func (h *handler) get(page string, f http.HandlerFunc) {
	h.mux.HandleFunc("GET /"+page, h.gate.wrap(page, look, f))
}

// post adds an endpoint that requires the permission for commands.
func (h *handler) post(page string, f http.HandlerFunc) {
	h.mux.HandleFunc("POST /"+page, h.gate.wrap(page, order, f))
}

// command adds a command that returns a message.
func (h *handler) command(page string, f func(r *http.Request) (string, error)) {
	h.post(page, func(w http.ResponseWriter, r *http.Request) {
		message, err := f(r)
		write(w, message, err)
	})
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) { write(w, "ok", h.Health.Err()) }

// addReports adds the endpoints that describe the node, its tables, and its partitions.
func (h *handler) addReports() {
	h.get("metrics", promhttp.HandlerFor(withFormerNames(h.Metrics), promhttp.HandlerOpts{}).ServeHTTP)
	h.get("status", func(w http.ResponseWriter, r *http.Request) {
		if h.gate.admits(r) {
			writeJSON(w, h.Reports.Status())
			return
		}
		writeJSON(w, h.Reports.StatusWithoutKeys())
	})
	h.get("history", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.Reports.History()) })
	h.get("usage", h.usagePage(false))
	h.get("usage/history", h.usagePage(true))
	h.get("advise", func(w http.ResponseWriter, r *http.Request) {
		reports, err := h.Advisor.Advise(r.Context(), r.URL.Query().Get("table"))
		if err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, reports)
	})
}

// addCommands adds the commands for nodes and their data.
func (h *handler) addCommands() {
	h.command("compact", func(r *http.Request) (string, error) { return "ok", h.Maintenance.Compact(r.Context()) })
	h.command("checkpoint", func(*http.Request) (string, error) { return h.Maintenance.Checkpoint() })
	h.command("upgrade", func(r *http.Request) (string, error) {
		level, err := h.Maintenance.RaiseLevel(r.Context())
		return fmt.Sprintf("feature level %d", level), err
	})
	for name, state := range map[string]meta.NodeState{"drain": meta.Draining, "decommission": meta.Leaving,
		"resume": meta.Up} {
		h.command("node/"+name, func(r *http.Request) (string, error) {
			if h.Nodes == nil {
				return "", errors.New("this is a standalone node")
			}
			return h.Nodes.SetState(r.Context(), r.URL.Query().Get("node"), state)
		})
	}
	h.addRegions()
	h.addEncryption()
	h.post("verify", h.verifyPage)
	for _, what := range archiveOrders {
		h.post(what, h.archiveOrder(what))
	}
}

// addRegions adds the list of regions and the commands that change the list.
func (h *handler) addRegions() {
	h.get("regions", func(w http.ResponseWriter, _ *http.Request) {
		list, err := []regions.Region(nil), error(regions.ErrStandalone)
		if h.Regions != nil {
			list, err = h.Regions.List()
		}
		if err != nil {
			write(w, "", err)
			return
		}
		writeJSON(w, list)
	})
	if h.Regions == nil {
		standalone := func(*http.Request) (string, error) { return "", regions.ErrStandalone }
		h.command("region/add", standalone)
		h.command("region/remove", standalone)
		return
	}
	h.command("region/add", func(r *http.Request) (string, error) {
		return h.Regions.Add(r.Context(), r.URL.Query().Get("region"))
	})
	h.command("region/remove", func(r *http.Request) (string, error) {
		return h.Regions.Remove(r.Context(), r.URL.Query().Get("region"))
	})
}

// addPage adds the web UI and the response to a request without a path.
func (h *handler) addPage() {
	if h.Page != nil {
		h.mux.HandleFunc("GET /ui/", h.gate.wrap("page", look, h.Page.ServeHTTP))
		h.mux.Handle("GET /ui/assets/", h.Page)
		explore := h.gate.named("explore", h.Page)
		h.mux.HandleFunc("GET /ui/explore", explore)
		h.mux.HandleFunc("POST /ui/explore", explore)
	}
	h.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if h.Page != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, "/ui/", http.StatusSeeOther)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(index))
	})
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
/regions  the regions of the cluster, as JSON
/encryption  the encryption of the data directory, as JSON
/ring     the ring that drivers see, beside what nodes really hold, as JSON
/endpoints?keyspace=..&table=..&key=..  where a logical partition is, as JSON
/sessions connections of clients that have most to do, as JSON; ?limit=..
/slow     requests that took long, as JSON
/ui/      all of this for a browser, live, and a place to try statements

Orders, for the owner of the data directory by its socket, or with a user and a password:
POST /checkpoint  write a consistent copy of the data beside it
POST /compact     merge all levels of the store now
POST /encryption/rotate   read the store key again and replace the data key
POST /encryption/rewrite  encrypt the tables of the stores with the newest data key
POST /upgrade     raise the feature level: the builds before cannot come back
POST /partition/split?table=..&partition=..&at=..&dry-run=..&wait=..&now=..  split a physical partition
POST /partition/merge?table=..&partition=..&with=..&dry-run=..&wait=..&now=..  merge two neighbours
POST /partition/cancel?table=..&partition=..  take back a merge or a move
POST /partition/move?table=..&partition=..&from=..&to=..&hold=..&dry-run=..&wait=..  move a replica
POST /sessions/cancel?id=..      close the connection of a client
POST /node/drain?node=..         move leaders away from a node
POST /node/decommission?node=..  move everything away from a node
POST /node/resume?node=..        cancel drain or decommission
POST /region/add?region=..       register a region
POST /region/remove?region=..    remove a region without nodes
`

// byAddress rejects requests from this machine if their Host header is neither an IP address nor localhost. Otherwise,
// an attacker could make the name of a website resolve to this machine (DNS rebinding).
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

func writeJSON(w http.ResponseWriter, page any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// If the client has disconnected, it cannot receive an error.
	_ = enc.Encode(page)
}

// write responds with a line of text, or with 503 and the error.
func write(w http.ResponseWriter, answer string, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = err.Error()
	}
	// If the client has disconnected, it cannot receive an error.
	_, _ = w.Write([]byte(answer + "\n"))
}
