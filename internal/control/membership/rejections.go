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

// Rejections logs rejected connections, both of other nodes and of this node. It also detects other processes with this
// node's ID. It is safe for concurrent use.
type Rejections struct {
	log       *slog.Logger
	node      Node
	limiter   lograte.Limiter
	duplicate duplicateWatch
}

// duplicateIntervals is the number of silence periods for which other nodes must report a duplicate of this node's ID
// before the node stops. Nodes detect the end of an earlier process within less time.
const duplicateIntervals = 3

// NewRejections returns Rejections that stop node if another process uses the node's ID. silence is the timeout of a
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

// rejectionKind returns the reason for a rejection without the parts that differ between connections.
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

// LogUnreachable logs that a node cannot be reached. It logs a warning if the cause probably requires intervention.
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

// checkDuplicate stops the node if other nodes repeatedly report a duplicate of its ID.
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
