// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
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

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/node/backup"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/httpguard"
)

// AdminSocket is the name of the admin socket in the data directory.
const AdminSocket = "admin.sock"

// webConnections bounds the HTTP connections, and webAddressConnections the connections from one address. New
// connections replace idle ones. A backup may use 64 at the same time.
const webConnections, webAddressConnections = 128, 80

// serveHTTP opens the admin socket in the data directory and, if configured, the HTTP listener.
func (n *Node) serveHTTP(archives *backup.Service) error {
	shown := n.statusView()
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	registry.MustRegister(n.collectors(shown)...)
	asked := &admin.Asked{
		Table: func(ctx context.Context, name string) (*admin.TableReport, error) {
			t, err := n.catalog.UserTableNamed(name)
			if err != nil {
				return nil, err
			}
			figures := n.stats.Tables(ctx, []*schema.Table{t})
			return shown.Report(ctx, t, figures[t.ID], n.clock()().UnixMicro()), nil
		},
		Ring: shown.Ring, Endpoints: n.endpoints, Cancel: n.cancelSession, Slow: n.slowQueries,
		Sessions: func(ctx context.Context, most int) catalog.Sessions {
			return n.sessions(ctx, cmp.Or(most, sessionsDefault))
		},
	}
	pages := admin.Options{
		Asked: asked,
		Ready: n.Err, Healthy: n.Err, Metrics: registry,
		Status: func(keys bool) any {
			if keys {
				return shown.Status()
			}
			return shown.StatusWithoutKeys()
		},
		History: func() any { return shown.History() }, Usage: shown.ShowUsage, Users: n.stats.Users,
		Advise:  func(ctx context.Context, table string) (any, error) { return n.stats.Advise(ctx, table) },
		Compact: n.store.Compact, Checkpoint: n.checkpoint, Order: n.setNodeState, Upgrade: n.upgrade,
		Split: n.partitions.Split, Move: n.partitions.Move, Merge: n.partitions.Merge, Cancel: n.partitions.Cancel,
		Verify:  n.pageVerifier().Verify,
		Archive: archives.Execute,
		Profile: true,
	}
	gate := &admin.Gate{Open: n.opts.Auth.AnonymousEndpoints, Log: n.log}
	if l := n.listenAdmin(); l != nil {
		gate.Socket = l.Addr().String()
		own := pages
		own.Keys = n.shownRESTKeys
		n.serveWeb(n.webServer(admin.Handler(own, nil)), l)
	}
	if n.webListener == nil {
		return nil
	}
	if n.logins != nil {
		gate.Login = n.roleLogin.Login
	}
	pages.Profile, pages.Page = options.IsLoopback(n.opts.HTTP), n.webUI(shown)
	s := n.webServer(admin.Handler(pages, gate))
	httpguard.Attach(s)
	n.serveWeb(s, httpguard.Listen(n.webListener, httpguard.Options{Max: webConnections,
		AddressMax: webAddressConnections, TLS: n.certificates.Clients()}))
	return nil
}

// collectors returns the metrics of the node itself.
func (n *Node) collectors(shown *admin.Node) []prometheus.Collector {
	return []prometheus.Collector{admin.Collector(shown), n.certificates,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ilion_build_info", Help: "The build that runs; always 1.",
			ConstLabels: prometheus.Labels{"version": process.Version(), "go_version": runtime.Version()}},
			func() float64 { return 1 })}
}

// listenAdmin opens the admin socket. If that fails, for example because the path is too long, it logs a warning and
// returns nil.
func (n *Node) listenAdmin() net.Listener {
	if n.opts.Data == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(n.opts.Data, AdminSocket))
	if err == nil {
		err = os.Remove(path) // left by a killed process: this process owns the directory
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
		n.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot open the admin socket in the data directory",
			slog.String("error", err.Error()))
		return nil
	}
	return l
}

func (n *Node) webServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug), // failed handshakes of unknown clients
	}
}

// serveWeb serves HTTP until the node stops.
func (n *Node) serveWeb(s *http.Server, l net.Listener) {
	n.closers = append(n.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			return s.Close()
		}
		return nil
	})
	n.wg.Go(func() {
		err := s.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	})
}

// upgrade calls RaiseLevel for an operator.
func (n *Node) upgrade(ctx context.Context) (string, error) {
	level, err := n.RaiseLevel(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("feature level %d", level), nil
}

// checkpoint writes a consistent copy of the data next to the data directory and returns its name. The copy shares
// files with the original where possible.
func (n *Node) checkpoint() (string, error) {
	if n.opts.Data == "" {
		return "", errors.New("cannot create a checkpoint: the data is in memory")
	}
	if !n.copying.TryLock() {
		return "", errors.New("a checkpoint is already being created: retry when it is complete")
	}
	defer n.copying.Unlock()
	dir := filepath.Clean(n.opts.Data) + ".checkpoint-" + time.Now().UTC().Format("20060102T150405.000Z")
	return dir, n.store.Checkpoint(dir)
}
