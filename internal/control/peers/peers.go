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
	// Clock is the reading of the node's wall clock at the time of the report.
	Clock time.Time `json:"clock"`
	// Started is the time at which the node's process started.
	Started time.Time `json:"started"`
	// Records is the node's metadata version, and Schema is the node's schema version.
	Records uint64   `json:"records"`
	Schema  [16]byte `json:"schema"`
	// Software is the output of `ilion version`. Newest is the newest feature level that the node supports.
	Software string        `json:"software"`
	Newest   feature.Level `json:"level_newest"`
	// DiskFree is the percentage of free disk space, or -1 if it is unknown. DiskFull reports whether the node rejects
	// writes.
	DiskFree  int    `json:"disk_free"`
	DiskFull  bool   `json:"disk_full"`
	DiskBytes uint64 `json:"disk_bytes"`
	// ReplicaBytes is the part of DiskBytes that the replicas on the node use. The value may be some seconds old.
	ReplicaBytes uint64 `json:"held,omitempty"`
	// Memory is partition.Host.DedupeEpoch.
	Memory uint64 `json:"memory,omitempty"`
	// Left reports whether the receiver of the report has left the cluster according to the sender.
	Left bool `json:"left,omitempty"`
	// Replicas is the number of replicas on the node. Leading is the number of replicas that lead.
	Replicas int `json:"replicas"`
	Leading  int `json:"leading"`
}

// Options configures Peers.
type Options struct {
	// Interval is the time between two reports of a node. The default is 1 s.
	Interval time.Duration
	// Observer receives the changes of nodes.
	Observer Observer
	// Sched provides clocks and waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Observer receives the changes of nodes. Its methods must not call methods of Peers.
type Observer interface {
	// AliveChanged is called when a node goes down or is up again.
	AliveChanged(node topology.NodeID, alive bool)
	// Removed is called when this node is no longer a member of the cluster.
	Removed()
	// ClockSkewed is called when the clock of this node becomes incorrect, and when it is correct again. ahead is the
	// offset of the clock. A clock that has not been compared with a quorum counts as incorrect, with offset 0.
	ClockSkewed(skewed bool, ahead time.Duration)
}

// Peers holds the state of the other nodes. It is safe for concurrent use.
type Peers struct {
	self   topology.NodeID
	client rpc.Client
	opts   Options
	// clock provides the wall clock and the monotonic clock.
	clock *sched.Scheduler
	began time.Time

	wake chan struct{} // signals an increase of targetVersion

	bounds atomic.Pointer[clockBounds]
	skewed atomic.Bool

	mu    sync.Mutex
	peers map[topology.NodeID]*peer
	// firstWatch is the time at which the first node was added.
	firstWatch time.Duration
	// targetVersion is the metadata version for which the other nodes are polled. pending reports whether polling has
	// not started yet.
	targetVersion uint64
	pending       bool
	changed       chan struct{} // closed and replaced when the state of a node changes
}

type peer struct {
	watched bool
	// polling reports whether a request for the target version is in progress.
	polling bool
	down    time.Time // time since which the node has been down, or zero
	// stopping is true after the process has announced that it is stopping.
	stopping   bool
	report     Report
	reportedAt time.Time // time at which report was received, or zero
	// restartedAt is the time at which the first report of a new process was received. It is zero if the process has
	// not changed.
	restartedAt time.Time
	// returned is true after the node is up again until its next report, because the node may be another process.
	returned bool
	skew     time.Duration
	// memory holds the latest distinct values of Report.Memory, newest first, and the times of the reports.
	memory [memorySamplesMax]struct {
		value uint64
		at    time.Time
	}
	// clock is the node's clock at the time clockAt of this node's monotonic clock.
	clock   time.Time
	clockAt time.Duration
}

// memorySamplesMax is the maximum number of stored values for each node.
const memorySamplesMax = 4

// recordMemory records a node's value of Report.Memory.
func (q *peer) recordMemory(value uint64, now time.Time) {
	if q.memory[0].value == value {
		return
	}
	copy(q.memory[1:], q.memory[:])
	q.memory[0].value, q.memory[0].at = value, now
}

// Memory returns the latest Report.Memory that a node has reported before an instant of Sched.Now. It returns 0 if no
// such report exists.
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

// Watch sets the nodes of the cluster and deletes the state of all other nodes.
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

// SetDown records whether a node is down (PE1).
func (p *Peers) SetDown(node topology.NodeID, down bool) { p.setDown(node, down, false) }

// setDown records whether a node is down. reports is true if the node has just reported.
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

// MarkStopping records that the process of a node is stopping. The node should then not become a leader.
func (p *Peers) MarkStopping(node topology.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.peers[node]; q != nil {
		q.stopping = true
	}
}

// Stopping returns the nodes whose processes are stopping.
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

// RecentlyRestarted returns the nodes whose recent restarts may be unknown to other nodes, and the nodes that are up
// again and have not reported yet. These nodes must not become leaders. A leader that has lost its dedupe state cannot
// determine whether a resent write has been applied, and the sender cannot determine this either.
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

// AnnounceStop notifies all live nodes that this node is stopping, and waits for their responses.
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

// Alive reports whether a node is not known to be down. It always returns true for this node.
func (p *Peers) Alive(node topology.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.peers[node]
	return q == nil || q.down.IsZero()
}

// Down maps each node that is down to the time since which the node has been down.
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
	// Skew is the time by which the node's clock is ahead of this node's clock, with an error of up to half of the
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

// handleReport processes a report. asked is the instant of the monotonic clock at which the report was requested.
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
			q.stopping = false // the report is from a new process
		} else if r.Records < q.report.Records { // the node has already reported a newer version
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
