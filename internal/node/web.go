// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ilion-db/ilion/internal/node/backup"
	"github.com/ilion-db/ilion/internal/node/lifecycle"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/httpguard"
	"github.com/ilion-db/ilion/internal/server/webui"
)

// AdminSocket is the name of the admin socket in the data directory.
const AdminSocket = "admin.sock"

// webConnections is the maximum number of HTTP connections. webAddressConnections is the maximum number of connections
// from one address. New connections replace idle connections. A backup may use 64 connections at the same time.
const webConnections, webAddressConnections = 128, 80

// serveHTTP opens the admin socket in the data directory and, if configured, the HTTP listener.
func (n *Node) serveHTTP(archives *backup.Service) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(n.collectors()...)
	pages := admin.Options{
		Health: n, Metrics: registry, Reports: n.reports, Advisor: n.stats, Diagnostics: n.diagnostics,
		Partitions: n.partitions, Maintenance: n.maintenance, Verifier: n.pageVerifier(), Archive: archives,
		Profile: true,
	}
	if n.cluster != nil {
		pages.Nodes, pages.Regions = n.cluster.operations, n.cluster.regions
	}
	if n.keys != nil {
		pages.Encryption = n.keys
	}
	gate := &admin.Gate{Open: n.opts.Auth.AnonymousEndpoints, Log: n.log}
	if l := listenAdmin(n.opts.Data, n.log); l != nil {
		gate.Socket = l.Addr().String()
		own := pages
		own.Keys = n.account.KeyPage()
		serveWeb(n.life, webServer(n.log, admin.Handler(own, nil)), l)
	}
	if n.HTTP == nil {
		return nil
	}
	if n.logins != nil {
		gate.Login = n.roleLogin.Login
	}
	pages.Profile, pages.Page = options.IsLoopback(n.opts.HTTP), webui.Handler(webui.Options{Reports: n.reports,
		Slow: n.diagnostics, Explorer: webui.SessionExplorer{Engine: n.Engine}})
	s := webServer(n.log, admin.Handler(pages, gate))
	httpguard.Attach(s)
	serveWeb(n.life, s, httpguard.Listen(n.HTTP, httpguard.Options{Max: webConnections,
		AddressMax: webAddressConnections, TLS: n.certificates.Clients()}))
	return nil
}

// collectors returns the metrics of the node itself.
func (n *Node) collectors() []prometheus.Collector {
	return []prometheus.Collector{admin.Collector(n.reports), n.certificates,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ilion_build_info", Help: "The running build; always 1.",
			ConstLabels: prometheus.Labels{"version": process.Version(), "go_version": runtime.Version()}},
			func() float64 { return 1 })}
}

// listenAdmin opens the admin socket. If this fails, for example because the path is too long, it logs a warning and
// returns nil.
func listenAdmin(dir string, log *slog.Logger) net.Listener {
	if dir == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(dir, AdminSocket))
	if err == nil {
		err = os.Remove(path) // a killed process may have left the file, and this process owns the directory
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("unix", path)
	}
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		log.LogAttrs(context.Background(), slog.LevelWarn, "cannot open the admin socket in the data directory",
			slog.String("error", err.Error()))
		return nil
	}
	return l
}

func webServer(log *slog.Logger, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // unknown clients cause these errors
	}
}

// serveWeb serves HTTP until the node stops.
func serveWeb(life *lifecycle.Lifecycle, s *http.Server, l net.Listener) {
	life.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			return s.Close()
		}
		return nil
	})
	life.Serve(func() error {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
}
