// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// testCluster is a set of nodes that reach each other unless a node is cut off.
type testCluster struct {
	nodes map[topology.NodeID]*host
	cut   map[topology.NodeID]bool
}

type reply struct {
	data []byte
	err  error
}

func (a *reply) Page([]byte) error     { return errors.ErrUnsupported }
func (a *reply) End(data []byte) error { a.data = data; return nil }
func (a *reply) Fail(err error)        { a.err = err }

func (w *testCluster) Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error) {
	if w.cut[to] || w.nodes[to] == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var a reply
	w.nodes[to].server().Serve(ctx, topology.NodeID{1}, request, &a)
	return a.data, a.err
}

type host struct {
	report  Report
	admit   error
	stopped bool

	acknowledged map[topology.PartitionID]uint64
}

// server returns a server for the calls to a host.
func (h *host) server() *rpc.Server {
	s := new(rpc.Server)
	answer(s, ReportCall, func(rpc.None) (Report, error) { return h.report, nil })
	answer(s, StopCall, func(rpc.None) (rpc.None, error) { h.stopped = true; return rpc.None{}, nil })
	rpc.Handle(s, AwaitCall, func(ctx context.Context, _ topology.NodeID, q AwaitRequest) (Versions, error) {
		if h.report.Records >= q.Version {
			return Versions{h.report.Records, h.report.Schema}, nil
		}
		<-ctx.Done()
		return Versions{}, ctx.Err()
	})
	answer(s, JoinCall, func(n JoinRequest) (JoinResponse, error) {
		return JoinResponse{Replica: 7, Nodes: map[string]topology.NodeID{n.Internal: n.Node}}, h.admit
	})
	answer(s, AcknowledgedCall, func(a Acknowledged) (rpc.None, error) {
		h.acknowledged = a.To
		return rpc.None{}, nil
	})
	answer(s, StatsCall, func(rpc.None) (NodeStats, error) {
		return NodeStats{Capacity: 5 << 40, Replicas: []ReplicaStats{{9, 3 << 30, 70}, {2, 1, 0}}}, nil
	})
	return s
}

// answer registers a handler.
func answer[Q, A any](s *rpc.Server, c *rpc.Call[Q, A], f func(Q) (A, error)) {
	rpc.Handle(s, c, func(_ context.Context, _ topology.NodeID, q Q) (A, error) { return f(q) })
}

// TestHoldings checks that the statistics of a node's replicas arrive in a compact encoding, and that corrupted
// responses are rejected.
func TestHoldings(t *testing.T) {
	w := &testCluster{nodes: map[topology.NodeID]*host{{2}: {}}, cut: map[topology.NodeID]bool{}}
	got, err := StatsCall.Do(t.Context(), &rpc.Client{Caller: w}, topology.NodeID{2}, rpc.None{})
	want := NodeStats{Capacity: 5 << 40, Replicas: []ReplicaStats{{2, 0, 0}, {9, 3 << 30, 70}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	b, _ := got.AppendBinary(nil)
	for i := range b {
		if new(NodeStats).UnmarshalBinary(b[:i]) == nil {
			t.Errorf("the first %d bytes of %d were taken", i, len(b))
		}
	}
	many := NodeStats{Capacity: 5 << 40}
	for i := range topology.PartitionID(10_000) {
		many.Replicas = append(many.Replicas, ReplicaStats{30 * i, 7 << 30, 500})
	}
	if b, _ = many.AppendBinary(nil); len(b) > 60_000 {
		t.Errorf("10,000 replicas take %d bytes", len(b))
	}
}

// observed records the notifications of an Observer.
type observed struct {
	alive   []bool
	removed bool
}

func (o *observed) AliveChanged(_ topology.NodeID, alive bool) { o.alive = append(o.alive, alive) }
func (o *observed) Removed()                                   { o.removed = true }
func (o *observed) ClockSkewed(bool, time.Duration)            {}

// TestPeers checks the state that a node stores about other nodes, such as reports, clock differences, and unavailable
// nodes.
func TestPeers(t *testing.T) {
	a, b, c := topology.NodeID{1}, topology.NodeID{2}, topology.NodeID{3}
	now := time.Unix(1_000_000, 0)
	w := &testCluster{nodes: map[topology.NodeID]*host{
		b: {report: Report{Clock: now.Add(3 * time.Second), Records: 10, Leading: 4}},
		c: {report: Report{Records: 9, Clock: now}},
	}, cut: map[topology.NodeID]bool{}}
	var events observed
	p := New(a, w, Options{Observer: &events})
	p.clock, p.began = sched.Driven(&clocks{own: now.Sub(epoch)}), epoch
	p.Watch([]topology.NodeID{a, b, c})
	p.pollReports(t.Context())
	if k, ok := p.Report(b); !ok || k.Leading != 4 || k.Skew != 3*time.Second || !k.Alive {
		t.Errorf("report of b: %+v %v", k, ok)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got := p.AwaitAgreement(ctx, 10); !slices.Equal(got, []topology.NodeID{c}) {
		t.Errorf("version 10 is missing at %v", got)
	}
	p.SetDown(c, true)
	p.SetDown(c, true)
	if p.Alive(c) || !p.Alive(a) || !p.Alive(b) || len(p.Down()) != 1 {
		t.Errorf("down: %v", p.Down())
	}
	if got := p.AwaitAgreement(t.Context(), 10); len(got) > 0 {
		t.Errorf("it waits for nodes that are down: %v", got)
	}
	p.pollReports(t.Context()) // node c responds
	if !p.Alive(c) || !slices.Equal(events.alive, []bool{false, true}) {
		t.Errorf("c has returned, events: %v", events.alive)
	}
	p.SendAcknowledged(t.Context(), map[topology.PartitionID]uint64{7: 70})
	if w.nodes[b].acknowledged[7] != 70 || w.nodes[c].acknowledged[7] != 70 {
		t.Error("the acknowledged positions were not sent")
	}
	p.AnnounceStop(t.Context())
	p.MarkStopping(b)
	if !w.nodes[b].stopped || !w.nodes[c].stopped || !p.Stopping()[b] || p.Stopping()[c] {
		t.Errorf("stopping: %v", p.Stopping())
	}
	w.nodes[b].report.Started = now
	p.pollReports(t.Context())
	if len(p.Stopping()) > 0 {
		t.Error("a new process of the node is taken for the one that ended")
	}
	w.nodes[b].report.Left = true
	p.pollReports(t.Context())
	if !events.removed {
		t.Error("the node does not learn that it has left")
	}
	p.Watch([]topology.NodeID{a, b})
	if _, ok := p.Report(c); ok {
		t.Error("c is not forgotten")
	}
}

// TestJoin checks that the description of a new node arrives and that the reason for a rejection is returned.
func TestJoin(t *testing.T) {
	b := topology.NodeID{2}
	h := &host{}
	w := &testCluster{nodes: map[topology.NodeID]*host{b: h}}
	n := JoinRequest{Node: topology.NodeID{1}, Internal: "127.0.0.9:7000"}
	got, err := Join(t.Context(), &rpc.Client{Caller: w}, b, n)
	if err != nil || got.Replica != 7 || got.Nodes["127.0.0.9:7000"] != n.Node {
		t.Errorf("%+v %v", got, err)
	}
	h.admit = errors.New("no room")
	if _, err := Join(t.Context(), &rpc.Client{Caller: w}, b, n); err == nil || err.Error() != "no room" {
		t.Errorf("refusal: %v", err)
	}
}

// TestFollow checks that a node learns about new schema versions of other nodes without waiting for their reports, and
// that AwaitVersion waits for them. A silent node delays AwaitVersion by at most the timeout of the call.
func TestFollow(t *testing.T) {
	b, c := topology.NodeID{2}, topology.NodeID{3}
	h := &host{report: Report{Records: 9, Schema: [16]byte{9}}}
	w := &testCluster{nodes: map[topology.NodeID]*host{b: h, c: h}, cut: map[topology.NodeID]bool{}}
	p := New(topology.NodeID{1}, w, Options{Observer: new(observed), Interval: time.Hour})
	p.Watch([]topology.NodeID{b, c})
	p.pollReports(t.Context())
	h.report.Records, h.report.Schema = 10, [16]byte{10}
	w.cut[c] = true
	p.SetVersion(10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.pollVersions(ctx); close(done) }()
	p.AwaitVersion(t.Context(), 10)
	if k, _ := p.Report(b); k.Records != 10 || k.Schema != h.report.Schema {
		t.Errorf("b is said to have %d, %v", k.Records, k.Schema)
	}
	if k, _ := p.Report(c); k.Records != 9 {
		t.Errorf("c is said to have %d", k.Records)
	}
	cancel()
	<-done
	p.handleReport(b, 0, Report{Records: 9})
	if k, _ := p.Report(b); k.Records != 10 {
		t.Error("a late report overwrites a newer version")
	}
}

// TestMemoryAsItWas checks that Memory returns the last reported value for any instant of the last seconds, and 0 for
// earlier times.
func TestMemoryAsItWas(t *testing.T) {
	b := topology.NodeID{2}
	p := New(topology.NodeID{1}, nil, Options{Observer: new(observed)})
	p.Watch([]topology.NodeID{b})
	if m := p.Memory(b, time.Now()); m != 0 {
		t.Errorf("a node that has not reported has memory from %d", m)
	}
	var at []time.Time // times after the receipt of one value and before the receipt of the next value
	for _, told := range []uint64{7, 8, 8, 9, 10, 11, 2} {
		p.handleReport(b, 0, Report{Memory: told})
		for at = append(at, time.Now()); !time.Now().After(at[len(at)-1]); {
		}
	}
	for i, want := range []uint64{0, 0, 0, 9, 10, 11, 2} {
		if got := p.Memory(b, at[i].Add(1)); got != want {
			t.Errorf("after report %d: %d, want %d", i, got, want)
		}
	}
	if m := p.Memory(topology.NodeID{3}, time.Now()); m != 0 {
		t.Errorf("an unknown node has memory from %d", m)
	}
}

// TestYoung checks which nodes count as recently restarted: A node with a new process counts until all other nodes know
// the new process. A node that is up again counts until it has reported the same process. A node with its first report
// does not count.
func TestYoung(t *testing.T) {
	b := topology.NodeID{2}
	synctest.Test(t, func(t *testing.T) {
		p := New(topology.NodeID{1}, nil, Options{Observer: new(observed), Interval: time.Second})
		p.Watch([]topology.NodeID{b})
		for i, told := range []struct {
			started time.Time
			young   bool
		}{{time.Unix(5, 0), false}, {time.Unix(5, 0), false}, {time.Unix(6, 0), true}, {time.Unix(6, 0), true}} {
			p.handleReport(b, 0, Report{Started: told.started})
			if p.RecentlyRestarted()[b] != told.young {
				t.Errorf("after report %d: young %t", i, !told.young)
			}
		}
		time.Sleep(restartReports * time.Second)
		if p.RecentlyRestarted()[b] {
			t.Error("it still counts as restarted")
		}
		p.SetDown(b, true)
		p.SetDown(b, false)
		if !p.RecentlyRestarted()[b] {
			t.Error("it has returned and is trusted before its first report")
		}
		p.handleReport(b, 0, Report{Started: time.Unix(6, 0)})
		if p.RecentlyRestarted()[b] {
			t.Error("it counts as restarted although its process is the same")
		}
		p.SetDown(b, true)
		p.handleReport(b, 0, Report{Started: time.Unix(6, 0)})
		if p.RecentlyRestarted()[b] {
			t.Error("it counts as restarted although the report that ends its absence has the same process")
		}
	})
}
