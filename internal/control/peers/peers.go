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
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// Report is the state that a node reports about itself.
type Report struct {
	// Clock is the node's wall clock when it sent the report.
	Clock time.Time `json:"clock"`
	// Started is the time at which the node's process started.
	Started time.Time `json:"started"`
	// Records is the node's metadata version, and Schema is the node's schema version.
	Records uint64   `json:"records"`
	Schema  [16]byte `json:"schema"`
	// Software is the output of `ilion version`. Newest is the newest feature level that the node supports.
	Software string        `json:"software"`
	Newest   feature.Level `json:"level_newest"`
	// DiskFree is in percent, or -1 if unknown. DiskFull reports whether the node rejects writes.
	DiskFree  int    `json:"disk_free"`
	DiskFull  bool   `json:"disk_full"`
	DiskBytes uint64 `json:"disk_bytes"`
	// ReplicaBytes is the part of DiskBytes that the replicas on the node use, measured some seconds ago.
	ReplicaBytes uint64 `json:"held,omitempty"`
	// Memory is partition.Host.DedupeEpoch.
	Memory uint64 `json:"memory,omitempty"`
	// Left reports whether the receiver of the report has left the cluster, as far as the sender knows.
	Left bool `json:"left,omitempty"`
	// Replicas is the number of replicas on the node; Leading is the number of leaders.
	Replicas int `json:"replicas"`
	Leading  int `json:"leading"`
}

// Options configures Peers.
type Options struct {
	// Interval is the time between two reports of a node; 1 s if 0.
	Interval time.Duration
	// Observer is notified of changes.
	Observer Observer
	// Sched provides clocks and waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Observer is notified of changes of the nodes. Its methods must not call back.
type Observer interface {
	// AliveChanged is called when a node goes down or comes back.
	AliveChanged(node topology.NodeID, alive bool)
	// Removed is called when this node is no longer a member of the cluster.
	Removed()
	// ClockSkewed is called when the clock of this node is found to be wrong, with its offset, and when it is correct
	// again. A clock that has not been compared with a quorum yet counts as wrong, with offset 0.
	ClockSkewed(skewed bool, ahead time.Duration)
}

// Peers holds the state of the other nodes. It is safe for concurrent use.
type Peers struct {
	self   topology.NodeID
	client rpc.Client
	opts   Options
	// clock provides the wall clock, and a monotonic clock since began.
	clock *sched.Scheduler
	began time.Time

	wake chan struct{} // targetVersion has grown

	bounds atomic.Pointer[clockBounds]
	skewed atomic.Bool

	mu    sync.Mutex
	peers map[topology.NodeID]*peer
	// firstWatch is the time at which the first node was added.
	firstWatch time.Duration
	// targetVersion is the metadata version requested from the other nodes. pending reports whether the requests have
	// not been sent yet.
	targetVersion uint64
	pending       bool
	changed       chan struct{} // closed and replaced when the state of a node changes
}

type peer struct {
	watched bool
	// polling reports whether a request for the target version is in progress.
	polling bool
	down    time.Time // zero if alive
	// stopping is true from the announcement of the process's end until its end.
	stopping   bool
	report     Report
	reportedAt time.Time // when report was received; zero if never
	// restartedAt is the time at which a report of a new process was received; zero if the process has not changed.
	restartedAt time.Time
	// returned is true from the time the node has come back until it reports, because the node may be another process.
	returned bool
	skew     time.Duration
	// memory holds the latest distinct values of Report.Memory, newest first, and the times of their reports.
	memory [memorySamplesMax]struct {
		value uint64
		at    time.Time
	}
	// clock is the node's clock at the time clockAt of this node's monotonic clock.
	clock   time.Time
	clockAt time.Duration
}

// memorySamplesMax is the number of values kept per node. Nodes report every second, and callers of Memory ask about
// the last few seconds.
const memorySamplesMax = 4

// recordMemory records a node's memory.
func (q *peer) recordMemory(value uint64, now time.Time) {
	if q.memory[0].value == value {
		return
	}
	copy(q.memory[1:], q.memory[:])
	q.memory[0].value, q.memory[0].at = value, now
}

// Memory returns the latest Report.Memory that a node reported before an instant of Sched.Now, or 0 if unknown.
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

// New returns Peers without nodes.
func New(self topology.NodeID, c rpc.Caller, o Options) *Peers {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	return &Peers{
		self: self, client: rpc.Client{Caller: c, Sched: o.Sched}, opts: o, clock: o.Sched, began: o.Sched.Now(),
		wake: make(chan struct{}, 1), peers: map[topology.NodeID]*peer{}, changed: make(chan struct{}),
	}
}

// steady returns the monotonic time since a fixed instant.
func (p *Peers) steady() time.Duration { return p.clock.Since(p.began) }

func (p *Peers) get(node topology.NodeID) *peer {
	q := p.peers[node]
	if q == nil {
		q = &peer{}
		p.peers[node] = q
	}
	return q
}

// Watch sets the nodes of the cluster and deletes the state of all others.
func (p *Peers) Watch(nodes []topology.NodeID) {
	p.mu.Lock()
	if len(p.peers) == 0 {
		p.firstWatch = p.steady()
	}
	for _, q := range p.peers {
		q.watched = false
	}
	for _, n := range nodes {
		if n != p.self {
			p.get(n).watched = true
		}
	}
	for n, q := range p.peers {
		if !q.watched {
			delete(p.peers, n)
		}
	}
	p.updateBounds()
	p.mu.Unlock()
	p.watchClock()
}

// SetDown records that a node went down or came back (PE1).
func (p *Peers) SetDown(node topology.NodeID, down bool) { p.setDown(node, down, false) }

// setDown is SetDown. reports is true if the node has just reported.
func (p *Peers) setDown(node topology.NodeID, down, reports bool) {
	p.mu.Lock()
	q := p.peers[node]
	changed := q != nil && q.down.IsZero() == down
	if changed {
		q.down = time.Time{}
		q.stopping, q.returned = false, !down && !reports && !q.reportedAt.IsZero()
		if down {
			q.down = p.clock.Wall()
		}
		p.signal()
	}
	p.mu.Unlock()
	if changed {
		p.opts.Observer.AliveChanged(node, !down)
	}
}

// MarkStopping records that the process of a node is about to end, so the node should not become a leader.
func (p *Peers) MarkStopping(node topology.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.peers[node]; q != nil {
		q.stopping = true
	}
}

// Stopping returns the nodes whose processes are about to end.
func (p *Peers) Stopping() map[topology.NodeID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[topology.NodeID]bool{}
	for n, q := range p.peers {
		if q.stopping {
			out[n] = true
		}
	}
	return out
}

// restartReports is the time for which a restart counts as recent, in intervals of Options.Interval. After this time,
// all nodes know of the restart.
const restartReports = 3

// RecentlyRestarted returns the nodes that have restarted so recently that other nodes may not know of the restart, and
// the nodes that came back and have not reported yet. They must not become leaders: a leader that has lost its memory
// cannot determine whether a resent write has been applied, and neither can the sender.
func (p *Peers) RecentlyRestarted() map[topology.NodeID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[topology.NodeID]bool{}
	for n, q := range p.peers {
		if q.returned || !q.restartedAt.IsZero() && p.opts.Sched.Since(q.restartedAt) < restartReports*p.opts.Interval {
			out[n] = true
		}
	}
	return out
}

// AnnounceStop tells all live nodes that this node is about to end, and waits for their responses.
func (p *Peers) AnnounceStop(ctx context.Context) {
	p.eachAlive(func(n topology.NodeID) {
		_, _ = StopCall.Do(ctx, &p.client, n, rpc.None{}) // heartbeats also detect the end
	})
}

// eachAlive calls f for all live nodes in parallel and waits for the calls.
func (p *Peers) eachAlive(f func(n topology.NodeID)) {
	wg := p.group()
	for _, n := range p.nodes() {
		if p.Alive(n) {
			wg.Go(func() { f(n) })
		}
	}
	wg.Wait()
}

// Alive reports whether a node is not known to be down. This node is always alive.
func (p *Peers) Alive(node topology.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.peers[node]
	return q == nil || q.down.IsZero()
}

// Down returns the nodes that are down, with the times since which they have been down.
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

// PeerStatus is the latest report of a node.
type PeerStatus struct {
	Report
	// Age is the time since the report.
	Age time.Duration
	// Skew is the time by which the node's clock is ahead of this node's clock. The error is up to half of the
	// round-trip time.
	Skew time.Duration
	// Alive is the result of Peers.Alive.
	Alive bool
}

// Report returns the latest report of a node. ok is false if the node has never reported.
func (p *Peers) Report(node topology.NodeID) (k PeerStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.peers[node]
	if q == nil || q.reportedAt.IsZero() {
		return PeerStatus{Alive: q == nil || q.down.IsZero()}, false
	}
	return PeerStatus{Report: q.report, Age: p.clock.Wall().Sub(q.reportedAt), Skew: q.skew, Alive: q.down.IsZero()},
		true
}

// Run polls the reports of all nodes until ctx ends.
func (p *Peers) Run(ctx context.Context) {
	wg := p.group()
	defer wg.Wait()
	wg.Go(func() { p.pollVersions(ctx) })
	for {
		p.pollReports(ctx)
		p.watchClock()
		pause := p.opts.Interval
		if p.clockUnverified() {
			pause = min(pause, unverifiedInterval)
		}
		if p.opts.Sched.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (p *Peers) group() *sched.Group { return &sched.Group{Scheduler: p.opts.Sched} }

// pollReports requests the reports of all nodes in parallel and waits for the responses.
func (p *Peers) pollReports(ctx context.Context) {
	wg := p.group()
	for _, n := range p.nodes() {
		wg.Go(func() {
			asked := p.steady()
			if r, err := ReportCall.Do(ctx, &p.client, n, rpc.None{}); err == nil { // heartbeats detect a silent node
				p.handleReport(n, asked, r)
			}
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

// handleReport processes a report that was requested at an instant of the monotonic clock.
func (p *Peers) handleReport(node topology.NodeID, asked time.Duration, r Report) {
	if r.Left {
		p.opts.Observer.Removed()
	}
	p.mu.Lock()
	if q := p.peers[node]; q != nil {
		now, middle := p.clock.Wall(), (p.steady()-asked)/2
		if !r.Started.Equal(q.report.Started) {
			if !q.reportedAt.IsZero() {
				q.restartedAt = p.opts.Sched.Now()
			}
			q.stopping = false // the report is from another process
		} else if r.Records < q.report.Records { // the node has reported a newer version since it sent this report
			r.Records, r.Schema = q.report.Records, q.report.Schema
		}
		q.report, q.reportedAt, q.returned = r, now, false
		q.recordMemory(r.Memory, p.opts.Sched.Now())
		q.skew = r.Clock.Sub(now.Add(-middle).Round(0))
		q.clock, q.clockAt = r.Clock, asked+middle
		p.updateBounds()
		p.signal()
	}
	p.mu.Unlock()
	p.watchClock()
	p.setDown(node, false, true)
}
