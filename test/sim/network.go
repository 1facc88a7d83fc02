// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// network carries frames between nodes. Frames from one node to another stay in order, as in a connection; those of different pairs
// do not.
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
		w.counts.Delayed++
		d = w.between(time.Millisecond, 300*time.Millisecond)
	}
	if n.slow[from] || n.slow[to] {
		d += w.between(0, 400*time.Millisecond)
	}
	return d
}

func (n *network) send(from *node, id topology.NodeID, frame []byte) {
	w := n.w
	to := int(id[0]) - 1
	w.noteFrame(from.id, to, frame)
	if n.blocked[from.id][to] {
		return
	}
	if w.oneIn(300) && !w.calm {
		w.counts.Dropped++
		return
	}
	at := max(w.now+n.delay(from.id, to), n.last[from.id][to])
	n.last[from.id][to] = at
	own, sender := append([]byte(nil), frame...), from.self()
	w.after(at-w.now, func() {
		if target := w.nodeOf(id); target != nil && !n.blocked[from.id][to] {
			target.deliver(sender, own)
		}
	})
}

var errLost = errors.New("connection lost")

// sendSnapshot delivers a snapshot's head and data beside the frames, and says how that ended.
func (n *network) sendSnapshot(from *node, id topology.NodeID, head []byte, data raftgroup.SnapshotData, done func(error)) {
	w := n.w
	to, sender := int(id[0])-1, from.self()
	w.noteFrame(from.id, to, head)
	stream := io.MultiReader(bytes.NewReader(head), io.NewSectionReader(data, 0, data.Size()))
	took, life := w.between(time.Millisecond, 200*time.Millisecond), from.life
	w.after(took, func() {
		target := w.nodeOf(id)
		if n.blocked[from.id][to] || n.blocked[to][from.id] || target == nil || target.host == nil || from.life != life || w.oneIn(20) && !w.calm {
			done(errLost)
			return
		}
		target.receive(sender, stream, done)
	})
}

// transitMost is how long a request may be on its way; who carries them drops older ones (see package partition, Mutation.Retried).
const transitMost = time.Second

// ask brings a request to a node, where serve runs as a task of its process, and its answer back; answer is called in the life of the
// node that asked, if the answer arrives.
func (n *network) ask(from *node, to *node, serve func(t *task, reply func(answer func()))) {
	w := n.w
	sent, asked, target := w.now, from.life, to.self()
	var arrive func()
	arrive = func() {
		switch {
		case to.host == nil || to.self() != target || n.blocked[from.id][to.id] || w.now-sent > transitMost:
			return
		case to.paused > w.now:
			w.after(to.paused-w.now, arrive)
			return
		}
		life := to.life
		w.spawn(to, func(t *task) {
			serve(t, func(answer func()) {
				if to.life != life {
					return // a process that is gone says nothing
				}
				back := time.Duration(1)
				if from != to {
					back = n.delay(to.id, from.id)
				}
				w.after(back, func() {
					if from.life == asked && from.host != nil && !n.blocked[to.id][from.id] {
						answer()
					}
				})
			})
		})
	}
	there := time.Duration(1)
	if from != to {
		there = n.delay(from.id, to.id)
	}
	w.after(there, arrive)
}

// cut separates a node from all others, or only in one direction, or from some.
func (n *network) cut(node int) {
	w := n.w
	shape := w.rng.IntN(4)
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
}

func (n *network) join(node int) {
	for other := range nodeCount {
		n.blocked[node][other], n.blocked[other][node] = false, false
	}
}
