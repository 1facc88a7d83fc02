// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"bufio"
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Network connects machines. Messages from one machine to another arrive in order, as on a connection. The order of
// messages between different pairs is undefined.
type Network struct {
	w *Environment
	// Rough holds the faults of connections for Raft and for snapshots. Requests holds the faults of connections for
	// requests.
	Rough, Requests Rough
	rand            *rand.Rand
	// buffer is the read buffer for frames.
	buffer *bufio.Reader
	// blocked[a][b] is true while messages from a to b are dropped. wires[a][b] is the connection.
	blocked [][]bool
	wires   [][]*raftWire
	// slow marks machines with long delays.
	slow []bool
	// distance[a][b] is added to the latency of frames from a to b.
	distance [][]time.Duration
}

// SetDistance adds a latency to the frames between two machines, in both directions.
func (n *Network) SetDistance(a, b int, d time.Duration) { n.distance[a][b], n.distance[b][a] = d, d }

func (n *Network) init(w *Environment, machines int) {
	n.w, n.slow = w, make([]bool, machines)
	for from := range machines {
		n.blocked = append(n.blocked, make([]bool, machines))
		n.wires = append(n.wires, nil)
		n.distance = append(n.distance, make([]time.Duration, machines))
		for to := range machines {
			n.wires[from] = append(n.wires[from], &raftWire{Wire: *n.Wire(from, to, &n.Rough)})
		}
	}
}

// Delay draws the latency of a frame. The latency is usually under a millisecond and sometimes long. A machine's
// messages to itself have no latency.
func (n *Network) Delay(from, to int) time.Duration {
	w := n.w
	if from == to {
		return 1
	}
	d := w.Between(100*time.Microsecond, time.Millisecond) + n.distance[from][to]
	if w.OneIn(200) && !w.Calm {
		w.Faults.Delayed++
		d = w.Between(time.Millisecond, 300*time.Millisecond) + n.distance[from][to]
	}
	if n.slow[from] || n.slow[to] {
		d += w.Between(0, 400*time.Millisecond)
	}
	return d
}

// Blocked reports whether messages from one machine to another are dropped.
func (n *Network) Blocked(from, to int) bool { return n.blocked[from][to] }

// Parted reports whether two machines have no connection.
func (n *Network) Parted(a, b int) bool { return n.blocked[a][b] || n.blocked[b][a] }

// Send sends a Raft frame to a machine. The network may lose the frame. A nil frame is the shutdown message of a
// process.
func (n *Network) Send(from, to int, frame []byte, deliver func(frame []byte)) {
	w := n.w
	if n.blocked[from][to] {
		return
	}
	if w.OneIn(300) && !w.Calm {
		w.Faults.Dropped++
		return
	}
	n.wires[from][to].post(frame, deliver)
}

// raftWire is the connection from a process to another machine. It remains in use when the other machine's process
// restarts.
type raftWire struct {
	Wire
	lives [2]int
}

// post sends a Raft frame.
func (c *raftWire) post(frame []byte, deliver func(frame []byte)) {
	w := c.n.w
	if lives := [2]int{w.Machines[c.from].Life, w.Machines[c.to].Life}; lives != c.lives {
		if c.lives = lives; len(c.arrived) > 0 {
			c.Close()
		}
	}
	b := transport.AppendDepart(nil)
	if frame != nil {
		b = transport.AppendRaft(nil, frame)
	}
	c.Send(b, func(f transport.Frame) {
		frame, _, err := f.Raft()
		if err != nil {
			w.Fail("from node %d to node %d: %v", c.from, c.to, err)
			return
		}
		deliver(frame)
	})
}

// Stream simulates a long transfer that is concurrent with the frames. The transfer succeeds or fails.
func (n *Network) Stream(from, to int, end func(whole bool)) {
	w := n.w
	life := w.Machines[from].Life
	w.After(w.Between(time.Millisecond, 200*time.Millisecond)+n.distance[from][to], func() {
		end(!n.Parted(from, to) && w.Machines[to].Up && w.Machines[from].Life == life && (w.Calm || !w.OneIn(20)))
	})
}

// Cut separates a machine from all other machines, from some other machines, or in one direction only.
func (n *Network) Cut(machine int) {
	w := n.w
	shape := w.Rand.IntN(4)
	for other := range n.blocked {
		if other == machine {
			continue
		}
		switch shape {
		case 0, 1:
			n.blocked[machine][other], n.blocked[other][machine] = true, true
		case 2:
			n.blocked[machine][other] = true
		default:
			if w.OneIn(2) {
				n.blocked[machine][other], n.blocked[other][machine] = true, true
			}
		}
	}
}

// CutPair separates two machines from all other machines.
func (n *Network) CutPair(a, b int) {
	for other := range n.blocked {
		if other != a && other != b {
			n.blocked[a][other], n.blocked[other][a] = true, true
			n.blocked[b][other], n.blocked[other][b] = true, true
		}
	}
}

// Separate separates two machines from each other.
func (n *Network) Separate(a, b int) { n.blocked[a][b], n.blocked[b][a] = true, true }

// Deafen drops the messages from one machine to another until undo is called. undo has no effect if faults have
// changed the connection since then.
func (n *Network) Deafen(machine, to int) (undo func()) {
	n.blocked[to][machine] = true
	return func() {
		if !n.blocked[machine][to] { // if the machine is blocked, another fault has cut it off
			n.blocked[to][machine] = false
		}
	}
}

// Join ends all cuts of a machine.
func (n *Network) Join(machine int) {
	for other := range n.blocked {
		n.blocked[machine][other], n.blocked[other][machine] = false, false
	}
}

// Reject makes the address of a running machine refuse connections for some time, as a firewall does. Sometimes Reject
// also drops the machine's own messages.
func (n *Network) Reject(m *Machine, hear func(by *Machine)) {
	w := n.w
	w.Faults.Rejected++
	most := w.Between(300*time.Millisecond, 3*time.Second)
	w.Note("node %d refuses connections for %v", m.ID, most)
	soon := most
	switch w.Rand.IntN(3) {
	case 0: // the machine receives no messages until all promises based on its shutdown message have expired
		for other := range n.blocked {
			if other != m.ID {
				n.Separate(m.ID, other)
			}
		}
		soon = 100 * time.Millisecond
		w.After(most, func() { n.Join(m.ID) })
	case 1:
		n.Cut(m.ID)
		w.After(most, func() { n.Join(m.ID) })
	}
	for _, by := range w.Machines {
		for at := w.Between(0, soon); by != m && at < most; at += w.Between(50*time.Millisecond, most) {
			by.AfterLife(at, func() { hear(by) })
		}
	}
}

// Refuse notifies some machines that a process has ended, because its machine refuses connections.
func (n *Network) Refuse(gone *Machine, hear func(m *Machine)) {
	w, life := n.w, gone.Life
	for _, m := range w.Machines {
		if m == gone || !m.Up || !w.OneIn(3) {
			continue
		}
		m.AfterLife(w.Between(time.Millisecond, 100*time.Millisecond), func() {
			if gone.Up || gone.Life != life || n.Parted(m.ID, gone.ID) {
				return
			}
			w.Faults.Refused++
			hear(m)
		})
	}
}
