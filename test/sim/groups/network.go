// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// network carries frames between nodes. Frames from one node to another stay in order, as in a connection; those of
// different pairs do not.
type network struct {
	w *world
	// blocked[a][b] is true while nothing goes from a to b.
	blocked [nodeCount][nodeCount]bool
	// last[a][b] is when the last frame arrives.
	last [nodeCount][nodeCount]time.Duration
	// slow makes delays long, for a while.
	slow [nodeCount]bool
}

func (n *network) init(w *world) { n.w = w }

// delay draws how long a frame takes: mostly under a millisecond, now and then long.
func (n *network) delay(from, to int) time.Duration {
	w := n.w
	d := w.between(100*time.Microsecond, time.Millisecond)
	if w.oneIn(200) && !w.calm {
		d = w.between(time.Millisecond, 300*time.Millisecond)
	}
	if n.slow[from] || n.slow[to] {
		d += w.between(0, 400*time.Millisecond)
	}
	return d
}

func (n *network) send(from, to int, frame []byte) {
	w := n.w
	w.noteFrame(from, to, frame)
	if n.blocked[from][to] || w.oneIn(300) && !w.calm {
		return
	}
	at := max(w.now+n.delay(from, to), n.last[from][to])
	n.last[from][to] = at
	own := append([]byte(nil), frame...)
	w.after(at-w.now, func() {
		if !n.blocked[from][to] {
			w.nodes[to].deliver(from, own)
		}
	})
}

// depart carries the last word of a process, in order with its frames.
func (n *network) depart(from, to int) {
	w := n.w
	if n.blocked[from][to] {
		return
	}
	at := max(w.now+n.delay(from, to), n.last[from][to])
	n.last[from][to] = at
	w.after(at-w.now, func() {
		if target := w.nodes[to]; !n.blocked[from][to] && target.host != nil {
			target.inbox.Calls = append(target.inbox.Calls, func(h *raftgroup.Host) { h.Departed(nodeID(from)) })
			target.kick()
		}
	})
}

var errLost = errors.New("connection lost")

// sendSnapshot delivers a snapshot's head and data beside the frames, and says how that ended.
func (n *network) sendSnapshot(from, to int, head []byte, data raftgroup.SnapshotData, done func(error)) {
	w := n.w
	w.noteFrame(from, to, head)
	stream := io.MultiReader(bytes.NewReader(head), io.NewSectionReader(data, 0, data.Size()))
	took := w.between(time.Millisecond, 200*time.Millisecond)
	w.after(took, func() {
		target := w.nodes[to]
		if n.blocked[from][to] || n.blocked[to][from] || target.host == nil || w.oneIn(20) && !w.calm {
			done(errLost)
			return
		}
		target.receive(from, stream, done)
	})
}

// cut separates a node from all others, or only in one direction, or from some, or together with another one from the
// rest. It returns what ends it.
func (n *network) cut(node int) (heal func()) {
	w := n.w
	shape := w.rng.IntN(6)
	if shape >= 4 {
		with := (node + 1 + w.rng.IntN(nodeCount-1)) % nodeCount
		for other := range nodeCount {
			if other != node && other != with {
				n.blocked[node][other], n.blocked[other][node] = true, true
				n.blocked[with][other], n.blocked[other][with] = true, true
			}
		}
		return func() { n.join(node); n.join(with) }
	}
	for other := range nodeCount {
		if other == node {
			continue
		}
		switch shape {
		case 0, 1:
			n.blocked[node][other], n.blocked[other][node] = true, true
		case 2:
			n.blocked[node][other] = true
		default:
			if w.oneIn(2) {
				n.blocked[node][other], n.blocked[other][node] = true, true
			}
		}
	}
	return func() { n.join(node) }
}

func (n *network) join(node int) {
	for other := range nodeCount {
		n.blocked[node][other], n.blocked[other][node] = false, false
	}
}

// decode is what a node's receiver does.
func decode(from int, frame []byte) (raftgroup.Received, error) {
	return raftgroup.DecodeFrame(nodeID(from), frame)
}
