// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// turnedAway logs who was not let in: once in a while for each host and reason, however often it tries.
func (c *cluster) turnedAway(remote string, err error) {
	host, _, e := net.SplitHostPort(remote)
	if e != nil {
		host = remote
	}
	omitted, ok := c.refusals.count(host + " " + kindOfRefusal(err))
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("remote", remote), slog.String("error", err.Error())}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("times_since", omitted))
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "a connection to the internal address was turned away", attrs...)
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

// notReached logs that another node could not be reached, as something to look at if it is not just away.
func (c *cluster) notReached(node topology.NodeID, address string, err error) {
	level := slog.LevelDebug
	if hopeless(err) && c.refusals.allow(address+" "+kindOfRefusal(err)) {
		level = slog.LevelWarn
	}
	c.n.log.LogAttrs(c.ctx, level, "node not reached", slog.String("node", short(node)), slog.String("address", address), slog.String("error", explain(err).Error()))
}

const (
	// twinPatience is how long other nodes have to say that this node's identity is taken before it is believed: longer than they need to
	// notice that an earlier process is gone. twinPause ends a row of such answers.
	twinPatience = 3 * silence
	twinPause    = 2 * twinPatience
)

// twinWatch notices that another process goes by the identity of this node.
type twinWatch struct {
	mu          sync.Mutex
	first, last time.Time
}

// refused takes note of a refusal and reports whether they have lasted too long.
func (w *twinWatch) refused(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) > twinPause {
		w.first = now
	}
	w.last = now
	return now.Sub(w.first) > twinPatience
}

// watchTwin ends the node when the others insist that it is somebody else.
func (c *cluster) watchTwin(err error) {
	if refused := (*transport.Refused)(nil); !errors.As(err, &refused) || !refused.ByPeer || !errors.Is(err, transport.ErrTwin) {
		return
	}
	if c.twin.refused(time.Now()) {
		c.n.fail(errors.New("another process of the cluster has the identity of this node: its data directory is a copy, or the original of one. " +
			"Keep one of them; the other has to start on an empty directory"))
	}
}
