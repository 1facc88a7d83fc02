// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/token"
)

// record is what the cluster is told of this node. Its token is given by whoever takes it in.
func (n *Node) record(at token.Token) *meta.Node {
	cql, web := n.clientAddrs()
	return &meta.Node{
		ID: n.store.Identity().Node, Internal: n.internalAddr(), CQL: cql, HTTP: web, Region: n.opts.DataCenter, Zone: n.opts.Rack,
		Tokens: []token.Token{at}, State: meta.Up, FormatMin: FormatOldest, FormatMax: n.format, Joined: time.Now().UTC().Truncate(time.Millisecond),
		Birth: n.store.Identity().Birth,
	}
}

// internalAddr is where other nodes reach this one, clientAddrs where clients do.
func (n *Node) internalAddr() string {
	if n.nodeListener == nil {
		return ""
	}
	return reachable(n.opts.Cluster.Advertise, n.nodeListener.Addr(), "")
}

func (n *Node) clientAddrs() (cql, web string) {
	host, _, _ := net.SplitHostPort(n.internalAddr()) // it was checked, or is the listener's own
	cql = reachable(n.opts.CQL, n.cqlListener.Addr(), host)
	if n.webListener != nil {
		web = reachable(n.opts.HTTP, n.webListener.Addr(), host)
	}
	return cql, web
}

// reachable is the address of a listener for others: with the port it really has, and with another host where it listens on all.
func reachable(configured string, l net.Addr, elsewhere string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return l.String()
	}
	_, real, err := net.SplitHostPort(l.String())
	if err == nil && port == "0" {
		port = real
	}
	if isUnspecified(host) && elsewhere != "" {
		host = elsewhere
	}
	return net.JoinHostPort(host, port)
}

// present keeps the node's own record true: addresses may change over a restart, and a drain ends with one.
func (c *cluster) present() {
	for {
		ctx, cancel := context.WithTimeout(c.ctx, schemachange.Wait)
		_, err := c.n.records.Update(ctx, func(s *meta.State) (*meta.State, error) {
			was := s.Node(c.self)
			if was == nil || was.State == meta.Left || was.State == meta.Leaving {
				return s, nil
			}
			is := c.n.record(token.Min)
			is.Tokens, is.Joined = was.Tokens, was.Joined
			if string(is.Append(nil)) == string(was.Append(nil)) {
				return s, nil
			}
			return s.WithNode(is), nil
		})
		cancel()
		if err == nil {
			break
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(joinPause):
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, schemachange.Wait)
	defer cancel()
	if err := c.n.changer.Ensure(ctx); err != nil && c.ctx.Err() == nil {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "system tables not made", slog.String("error", err.Error()))
	}
}
