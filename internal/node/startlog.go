// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net"
	"runtime"
	"slices"

	"github.com/ilion-db/ilion/internal/node/process"
)

// logStart logs the version, the configuration, and the addresses of the node.
func (n *Node) logStart() {
	o := &n.opts
	id := n.store.Identity().Node
	attrs := []slog.Attr{
		slog.String("version", process.Version()), slog.String("go", runtime.Version()),
		slog.String("platform", runtime.GOOS+"/"+runtime.GOARCH), slog.String("node", hex.EncodeToString(id[:])),
		slog.String("config", o.File), slog.String("data", o.Data), slog.String("cql", n.CQLAddr().String()),
	}
	for _, a := range []struct {
		name string
		addr net.Addr
	}{{"http", n.HTTPAddr()}, {"rest", n.RESTAddr()}, {"cosmos_cql", n.CosmosAddr()}} {
		text := "off"
		if a.addr != nil {
			text = a.addr.String()
		}
		attrs = append(attrs, slog.String(a.name, text))
	}
	internal := "off"
	if n.cluster != nil {
		internal = o.Cluster.Internal
		if o.Cluster.Advertise != "" {
			attrs = append(attrs, slog.String("advertise", o.Cluster.Advertise))
		}
	}
	users := make([]string, 0, len(o.Auth.Users))
	for name := range o.Auth.Users {
		users = append(users, name)
	}
	slices.Sort(users)
	attrs = append(attrs, slog.String("internal", internal), slog.String("commit", o.Commit),
		slog.Int64("memory_budget", int64(o.Memory.Budget)), slog.Bool("login_required", o.Auth.Required()),
		slog.Any("configured_users", users), slog.Bool("tls", o.TLS.Cert != ""),
		slog.Bool("node_tls", o.Cluster.TLS.CA != ""), slog.Uint64("feature_level", uint64(n.store.Level())),
		slog.String("compatibility", o.Compatibility))
	n.log.LogAttrs(context.Background(), slog.LevelInfo, "node started", attrs...)
	for _, warning := range o.Deprecations {
		n.log.LogAttrs(context.Background(), slog.LevelWarn, warning, slog.String("config", o.File))
	}
}
