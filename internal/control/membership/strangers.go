// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Strangers notices connections that come to nothing: nodes that were turned away here, nodes that turned this one
// away, and processes that go by this node's identity. It is safe for concurrent use.
type Strangers struct {
	log      *slog.Logger
	fail     func(error)
	refusals quiet
	twin     twinWatch
}

// twinSilences is how many times silence other nodes have to say that this node's identity is taken before it is
// believed: longer than they need to notice that an earlier process is gone.
const twinSilences = 3

// NewStrangers returns Strangers that log, and that end the node with fail when another process goes by its identity.
// silence is how soon a connection to a node that says nothing is given up.
func NewStrangers(log *slog.Logger, silence time.Duration, fail func(error)) *Strangers {
	return &Strangers{log: log, fail: fail, twin: twinWatch{patience: twinSilences * silence}}
}

// TurnedAway logs a connection that was refused: once in a while for each host and reason, however often it tries.
func (s *Strangers) TurnedAway(remote string, err error) {
	host, _, e := net.SplitHostPort(remote)
	if e != nil {
		host = remote
	}
	omitted, ok := s.refusals.count(host + " " + kindOfRefusal(err))
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("remote", remote), slog.String("error", err.Error())}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("times_since", omitted))
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "a connection to the internal address was turned away",
		attrs...)
}

// kindOfRefusal tells reasons apart without what differs from one connection to the next.
func kindOfRefusal(err error) string {
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) {
		return refused.Reason.Error()
	}
	switch {
	case errors.Is(err, transport.ErrBusy):
		return "busy"
	case errors.Is(err, transport.ErrHandshake):
		return "handshake"
	}
	var e *net.OpError // whose text has ports
	if errors.As(err, &e) && e.Err != nil {
		return e.Op + e.Err.Error()
	}
	return err.Error()
}

// NotReached logs that another node could not be reached, as something to look at if it is not just away.
func (s *Strangers) NotReached(node topology.NodeID, address string, err error) {
	s.watchTwin(err)
	level := slog.LevelDebug
	if hopeless(err) && s.refusals.allow(address+" "+kindOfRefusal(err)) {
		level = slog.LevelWarn
	}
	s.log.LogAttrs(context.Background(), level, "node not reached", slog.String("node", node.Short()),
		slog.String("address", address), slog.String("error", explain(err).Error()))
}

// twinWatch notices that another process goes by the identity of this node.
type twinWatch struct {
	patience    time.Duration
	mu          sync.Mutex
	first, last time.Time
}

// refused takes note of a refusal and reports whether they have lasted too long.
func (w *twinWatch) refused(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) > 2*w.patience {
		w.first = now
	}
	w.last = now
	return now.Sub(w.first) > w.patience
}

// watchTwin ends the node when the others insist that it is somebody else.
func (s *Strangers) watchTwin(err error) {
	if refused := (*transport.Refused)(nil); !errors.As(err, &refused) || !refused.ByPeer ||
		!errors.Is(err, transport.ErrDuplicateNode) {
		return
	}
	if s.twin.refused(time.Now()) {
		s.fail(errors.New("another process of the cluster has the identity of this node: its data directory is a " +
			"copy, or the original of one. " +
			"Keep one of them; the other has to start on an empty directory"))
	}
}
