// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Caller reaches other nodes; *transport.Transport is one.
type Caller interface {
	Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error)
}

// Report is what a node says of itself.
type Report struct {
	// Clock is the node's wall clock when it answered.
	Clock time.Time `json:"clock"`
	// Started is when its process began.
	Started time.Time `json:"started"`
	// Records is the version of the cluster's records that it has, Schema that of the schema.
	Records uint64   `json:"records"`
	Schema  [16]byte `json:"schema"`
	// Software is what `ilion version` prints, Newest the newest feature level that it understands.
	Software string        `json:"software"`
	Newest   feature.Level `json:"level_newest"`
	// DiskFree is in percent, -1 if not known; DiskFull says that it refuses writes.
	DiskFree  int    `json:"disk_free"`
	DiskFull  bool   `json:"disk_full"`
	DiskBytes uint64 `json:"disk_bytes"`
	// Held is how many bytes of DiskBytes the replicas on the node take, as they were measured some seconds ago.
	Held uint64 `json:"held,omitempty"`
	// Memory is partition.Host.DedupeEpoch.
	Memory uint64 `json:"memory,omitempty"`
	// Left says that the node that asks has left the cluster, as far as this one knows.
	Left bool `json:"left,omitempty"`
	// Replicas are those on the node, Leading the ones that lead.
	Replicas int `json:"replicas"`
	Leading  int `json:"leading"`
}

// Options of Peers. The zero value is ready for use.
type Options struct {
	// Every is the time between two reports of a node; 1 s if 0. Timeout bounds the wait for one; 1 s if 0.
	Every   time.Duration
	Timeout time.Duration
	// Changed is told when a node comes or goes; nil tells nobody. It must not call back.
	Changed func(node topology.NodeID, alive bool)
	// Left is told that this node is no member of the cluster any more; nil tells nobody.
	Left func()
	// Skewed is told when the clock of this node is found to be wrong, by how much it is ahead, and when it is right
	// again; nil tells nobody. A clock that no quorum has been compared with yet, ahead by 0, counts as wrong.
	Skewed func(skewed bool, ahead time.Duration)
	// Now is the wall clock, Steady one that never jumps; those of Sched if nil.
	Now    func() time.Time
	Steady func() time.Duration
	// Sched is what the loops wait by, nil outside simulations.
	Sched *sched.Scheduler
}

// Peers is what this node knows of the others. It is safe for concurrent use.
type Peers struct {
	self   topology.NodeID
	caller Caller
	opts   Options

	wake chan struct{} // wanted is greater than before

	held   atomic.Pointer[held]
	skewed atomic.Bool

	mu    sync.Mutex
	peers map[topology.NodeID]*peer
	// met is when the first of them was named.
	met time.Duration
	// wanted is the version of the records that the others are asked for; pending says that they have not been yet.
	wanted  uint64
	pending bool
	changed chan struct{} // closed and made anew when something is known of a node
}

type peer struct {
	watched bool
	// asked is set while the node is waited for to have the version that is wanted.
	asked bool
	down  time.Time // zero: alive
	// stops is set between the word that the process is about to end and its end.
	stops  bool
	report Report
	heard  time.Time // when report came; zero: never
	// began is when another process than the one before was heard of, zero if there was none before.
	began time.Time
	// returned is set when the node is back and has not reported since: it may be another process.
	returned bool
	skew     time.Duration
	// memory are the last values of Report.Memory that differ, the newest one first, and when they were heard.
	memory [memoriesMax]struct {
		value uint64
		at    time.Time
	}
	// clock is what its clock showed at clockAt of the own monotonic one.
	clock   time.Time
	clockAt time.Duration
}

// memoriesMax is how many values of its memory are known of a node: it reports once in a second, and what asks for them
// is under way for a few.
const memoriesMax = 4

// remember notes what a node's memory is.
func (q *peer) remember(value uint64, now time.Time) {
	if q.memory[0].value == value {
		return
	}
	copy(q.memory[1:], q.memory[:])
	q.memory[0].value, q.memory[0].at = value, now
}

// Memory is the newest Report.Memory that a node had told before an instant of Sched.Now, 0 if it is not known.
func (p *Peers) Memory(node topology.NodeID, before time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.peers[node]; q != nil {
		for i := range q.memory {
			if m := &q.memory[i]; m.at.Before(before) {
				return m.value
			}
		}
	}
	return 0
}

// New returns Peers that know of nobody.
func New(self topology.NodeID, c Caller, o Options) *Peers {
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Now == nil {
		o.Now = o.Sched.Wall
	}
	if o.Steady == nil {
		began := o.Sched.Now()
		o.Steady = func() time.Duration { return o.Sched.Since(began) }
	}
	return &Peers{self: self, caller: c, opts: o, peers: map[topology.NodeID]*peer{}, wake: make(chan struct{}, 1),
		changed: make(chan struct{})}
}

func (p *Peers) of(node topology.NodeID) *peer {
	q := p.peers[node]
	if q == nil {
		q = &peer{}
		p.peers[node] = q
	}
	return q
}

// Watch says which nodes there are. Those that are not named any more are forgotten.
func (p *Peers) Watch(nodes []topology.NodeID) {
	p.mu.Lock()
	if len(p.peers) == 0 {
		p.met = p.opts.Steady()
	}
	for _, q := range p.peers {
		q.watched = false
	}
	for _, n := range nodes {
		if n != p.self {
			p.of(n).watched = true
		}
	}
	for n, q := range p.peers {
		if !q.watched {
			delete(p.peers, n)
		}
	}
	p.hold()
	p.mu.Unlock()
	p.watchClock()
}

// SetDown notes that a node went away, or that it is back (PE1).
func (p *Peers) SetDown(node topology.NodeID, down bool) { p.setDown(node, down, false) }

// setDown is SetDown; reports says that the node has just reported.
func (p *Peers) setDown(node topology.NodeID, down, reports bool) {
	p.mu.Lock()
	q := p.peers[node]
	changed := q != nil && q.down.IsZero() == down
	if changed {
		q.down = time.Time{}
		q.stops, q.returned = false, !down && !reports && !q.heard.IsZero()
		if down {
			q.down = p.opts.Now()
		}
		p.signal()
	}
	p.mu.Unlock()
	if changed && p.opts.Changed != nil {
		p.opts.Changed(node, !down)
	}
}

// SetStops notes that the process of a node is about to end: it is to lead nothing more.
func (p *Peers) SetStops(node topology.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.peers[node]; q != nil {
		q.stops = true
	}
}

// Stopping returns the nodes whose processes are about to end.
func (p *Peers) Stopping() map[topology.NodeID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[topology.NodeID]bool{}
	for n, q := range p.peers {
		if q.stops {
			out[n] = true
		}
	}
	return out
}

// youngFor is how long a process is young, in intervals of Options.Every: all others have heard of it by then.
const youngFor = 3

// Young returns the nodes whose processes have been started anew so lately that others may not have heard of it, and
// those that came back and have yet to say whether they were: they are to be given nothing to lead. A leader that
// remembers nothing of before could not tell whether a write that is sent again was applied, and neither could its
// sender.
func (p *Peers) Young() map[topology.NodeID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[topology.NodeID]bool{}
	for n, q := range p.peers {
		if q.returned || !q.began.IsZero() && p.opts.Sched.Since(q.began) < youngFor*p.opts.Every {
			out[n] = true
		}
	}
	return out
}

// Stop tells all nodes that are alive that this one is about to end, and waits for their answers, for Options.Timeout
// at most.
func (p *Peers) Stop(ctx context.Context) {
	ctx, cancel := p.opts.Sched.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	wg := p.group()
	for _, n := range p.nodes() {
		if p.Alive(n) {
			wg.Go(func() { _ = p.call(ctx, n, kindStop, nil, nil) }) // a node that does not hear it finds out
		}
	}
	wg.Wait()
}

// Alive reports whether a node is not known to be away. The node itself is alive.
func (p *Peers) Alive(node topology.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.peers[node]
	return q == nil || q.down.IsZero()
}

// Down returns since when which nodes are away.
func (p *Peers) Down() map[topology.NodeID]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[topology.NodeID]time.Time{}
	for n, q := range p.peers {
		if !q.down.IsZero() {
			out[n] = q.down
		}
	}
	return out
}

// Known is what a node said last.
type Known struct {
	Report
	// Age is how long ago it said so.
	Age time.Duration
	// Skew is how much later its clock is than this node's, give or take half of the time its answer took.
	Skew time.Duration
	// Alive is as Peers.Alive says.
	Alive bool
}

// Report returns what a node said last; ok is false if it never said anything.
func (p *Peers) Report(node topology.NodeID) (k Known, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.peers[node]
	if q == nil || q.heard.IsZero() {
		return Known{Alive: q == nil || q.down.IsZero()}, false
	}
	return Known{Report: q.report, Age: p.opts.Now().Sub(q.heard), Skew: q.skew, Alive: q.down.IsZero()}, true
}

// Run asks every node for its report, again and again, until ctx ends.
func (p *Peers) Run(ctx context.Context) {
	wg := p.group()
	defer wg.Wait()
	wg.Go(func() { p.follow(ctx) })
	for {
		p.ask(ctx)
		p.watchClock()
		pause := p.opts.Every
		if p.doubts() {
			pause = min(pause, doubtEvery)
		}
		if p.opts.Sched.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (p *Peers) group() *sched.Group { return &sched.Group{Scheduler: p.opts.Sched} }

// ask asks all nodes at once and waits for their answers.
func (p *Peers) ask(ctx context.Context) {
	ctx, cancel := p.opts.Sched.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	wg := p.group()
	for _, n := range p.nodes() {
		wg.Go(func() {
			asked := p.opts.Steady()
			var r Report
			if err := p.call(ctx, n, kindReport, nil, &r); err != nil {
				return // a node that says nothing is noticed by the heartbeats
			}
			p.heard(n, asked, r)
		})
	}
	wg.Wait()
}

func (p *Peers) nodes() []topology.NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]topology.NodeID, 0, len(p.peers))
	for n := range p.peers {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b topology.NodeID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// heard takes a report that was asked for at an instant of the monotonic clock.
func (p *Peers) heard(node topology.NodeID, asked time.Duration, r Report) {
	if r.Left && p.opts.Left != nil {
		p.opts.Left()
	}
	p.mu.Lock()
	if q := p.peers[node]; q != nil {
		now, middle := p.opts.Now(), (p.opts.Steady()-asked)/2
		if !r.Started.Equal(q.report.Started) {
			if !q.heard.IsZero() {
				q.began = p.opts.Sched.Now()
			}
			q.stops = false // it is another process
		} else if r.Records < q.report.Records { // it has said more since it wrote this
			r.Records, r.Schema = q.report.Records, q.report.Schema
		}
		q.report, q.heard, q.returned = r, now, false
		q.remember(r.Memory, p.opts.Sched.Now())
		q.skew = r.Clock.Sub(now.Add(-middle).Round(0))
		q.clock, q.clockAt = r.Clock, asked+middle
		p.hold()
		p.signal()
	}
	p.mu.Unlock()
	p.watchClock()
	p.setDown(node, false, true)
}
