// SPDX-License-Identifier: Apache-2.0

// Package admin is the HTTP door for those who run a node: health, readiness and metrics. It knows nothing of CQL; what it
// shows comes in through Options. Start at Handler.
package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options is what the door shows.
type Options struct {
	// Ready returns nil when the node serves requests, else why it does not.
	Ready func() error
	// Healthy returns nil unless the node is broken beyond what a restart of the client can mend, else what is broken.
	Healthy func() error
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	// Status is served at /status as JSON.
	Status func() any
	// Compact merges all levels of the store; POST /compact waits for it. Nobody is asked who he is, so it is for loopback only.
	Compact func(ctx context.Context) error
	// Profile adds Go's profiles under /debug/pprof/. They show statements' shapes and cost processor time: for loopback only.
	Profile bool
}

// Handler serves /healthz (200 or 503), /readyz (200 or 503), /metrics (Prometheus text), /status (JSON) and POST /compact, and profiles if asked for.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", check(o.Healthy))
	mux.HandleFunc("GET /readyz", check(o.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		// A client that went away in the middle of its answer is nobody to report to.
		_ = enc.Encode(o.Status())
	})
	mux.HandleFunc("POST /compact", func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			http.Error(w, "only from the machine itself", http.StatusForbidden)
			return
		}
		check(func() error { return o.Compact(r.Context()) })(w, r)
	})
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Ilion\n\n/healthz  is the node sound\n/readyz   does it serve requests\n/metrics  Prometheus metrics\n/status   the node, its tables and partitions as JSON\nPOST /compact  merge all levels of the store now\n"))
	})
	return mux
}

// fromLoopback reports whether a request comes from the machine itself.
func fromLoopback(r *http.Request) bool {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

func check(f func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := f(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(err.Error() + "\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}
