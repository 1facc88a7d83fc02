// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/lograte"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Rejections logs failed connections: nodes rejected by this node, and nodes that reject this one. It also detects
// other processes with this node's ID. It is safe for concurrent use.
type Rejections struct {
	log       *slog.Logger
	node      Node
	limiter   lograte.Limiter
	duplicate duplicateWatch
}

// duplicateIntervals is the number of silence periods for which other nodes must report this node's ID as taken before
// the report counts. Nodes need less time to notice the end of an earlier process.
const duplicateIntervals = 3

// NewRejections returns Rejections that stop node when another process uses its ID. silence is the timeout of a
// connection without traffic.
func NewRejections(log *slog.Logger, silence time.Duration, node Node) *Rejections {
	return &Rejections{log: log, node: node, duplicate: duplicateWatch{threshold: duplicateIntervals * silence}}
}

// LogRejected logs a rejected connection. It limits the rate for each host and reason.
func (s *Rejections) LogRejected(remote string, err error) {
	host, _, e := net.SplitHostPort(remote)
	if e != nil {
		host = remote
	}
	omitted, ok := s.limiter.Count(host + " " + rejectionKind(err))
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("remote", remote), slog.String("error", err.Error())}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("times_since", omitted))
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "inter-node connection rejected",
		attrs...)
}

// rejectionKind returns the reason without the parts that differ between connections.
func rejectionKind(err error) string {
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) {
		return refused.Reason.Error()
	}
	switch {
	case errors.Is(err, transport.ErrBusy):
		return "busy"
	case errors.Is(err, transport.ErrHandshake):
		return "handshake"
	}
	var e *net.OpError // the text of the error contains ports
	if errors.As(err, &e) && e.Err != nil {
		return e.Op + e.Err.Error()
	}
	return err.Error()
}

// LogUnreachable logs that a node cannot be reached. It warns if the cause is likely to need intervention.
func (s *Rejections) LogUnreachable(node topology.NodeID, address string, err error) {
	s.checkDuplicate(err)
	level := slog.LevelDebug
	if isPermanent(err) && s.limiter.Allow(address+" "+rejectionKind(err)) {
		level = slog.LevelWarn
	}
	s.log.LogAttrs(context.Background(), level, "node unreachable", slog.String("node", node.Short()),
		slog.String("address", address), slog.String("error", explain(err).Error()))
}

// duplicateWatch detects another process with this node's ID.
type duplicateWatch struct {
	threshold   time.Duration
	mu          sync.Mutex
	first, last time.Time
}

// rejected records a rejection and reports whether the rejections have lasted too long.
func (w *duplicateWatch) rejected(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) > 2*w.threshold {
		w.first = now
	}
	w.last = now
	return now.Sub(w.first) > w.threshold
}

// checkDuplicate stops the node if other nodes keep reporting its ID as taken.
func (s *Rejections) checkDuplicate(err error) {
	if refused := (*transport.Refused)(nil); !errors.As(err, &refused) || !refused.ByPeer ||
		!errors.Is(err, transport.ErrDuplicateNode) {
		return
	}
	if s.duplicate.rejected(time.Now()) {
		s.node.Fail(errors.New("another process of the cluster has the identity of this node: one data directory is a copy " +
			"of the other. Keep one of them, and start the other node on an empty directory"))
	}
}
