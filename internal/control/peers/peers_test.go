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

	"github.com/ilion-db/ilion/internal/model/topology"
)

// world is a set of nodes that reach each other unless a node is cut off.
type world struct {
	nodes map[topology.NodeID]Host
	cut   map[topology.NodeID]bool
}

type answer struct {
	data []byte
	err  error
}

func (a *answer) End(data []byte) error { a.data = data; return nil }
func (a *answer) Fail(err error)        { a.err = err }

func (w *world) Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error) {
	if w.cut[to] || w.nodes[to] == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var a answer
	Serve(ctx, w.nodes[to], topology.NodeID{1}, request, &a)
	return a.data, a.err
}

type host struct {
	report  Report
	admit   error
	stopped bool

	acknowledged map[topology.PartitionID]uint64
}

func (h *host) Describe(topology.NodeID) Report { return h.report }
func (h *host) HandleStopping(topology.NodeID)  { h.stopped = true }
func (h *host) Await(ctx context.Context, version uint64, _ bool) (Versions, error) {
	if h.report.Records >= version {
		return Versions{h.report.Records, h.report.Schema}, nil
	}
	<-ctx.Done()
	return Versions{}, ctx.Err()
}
func (h *host) Admit(_ context.Context, n JoinRequest) (JoinResponse, error) {
	return JoinResponse{Replica: 7, Nodes: map[string]topology.NodeID{n.Internal: n.Node}}, h.admit
}

func (h *host) HandleAcknowledged(to map[topology.PartitionID]uint64) { h.acknowledged = to }

func (h *host) Stats() NodeStats {
	return NodeStats{Capacity: 5 << 40, Replicas: []ReplicaStats{{9, 3 << 30, 70}, {2, 1, 0}}}
}

func (h *host) MergeCandidates() []byte { return []byte("quiet") }

func (h *host) HandleQuery(_ context.Context, subject string, question []byte) ([]byte, error) {
	return append([]byte(subject+"? "), question...), h.admit
}

func (h *host) Acquire(context.Context) (uint64, error) { return h.report.Records, h.admit }

// TestHoldings checks that the statistics of a node's replicas arrive in a compact encoding, and that corrupted
// responses are rejected.
func TestHoldings(t *testing.T) {
	w := &world{nodes: map[topology.NodeID]Host{{2}: &host{}}, cut: map[topology.NodeID]bool{}}
	p := New(topology.NodeID{1}, w, Options{})
	got, err := p.Stats(t.Context(), topology.NodeID{2})
	want := NodeStats{Capacity: 5 << 40, Replicas: []ReplicaStats{{2, 0, 0}, {9, 3 << 30, 70}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if q, err := p.MergeCandidates(t.Context(), topology.NodeID{2}); err != nil || string(q) != "quiet" {
		t.Errorf("%q, %v", q, err)
	}
	a, err := p.Query(t.Context(), topology.NodeID{2}, "how", []byte("a\x00b"))
	if err != nil || string(a) != "how? a\x00b" {
		t.Errorf("%q, %v", a, err)
	}
	b := got.append(nil)
	for i := range b {
		if _, err := decodeStats(b[:i]); err == nil {
			t.Errorf("the first %d bytes of %d were taken", i, len(b))
		}
	}
	many := NodeStats{Capacity: 5 << 40}
	for i := range topology.PartitionID(10_000) {
		many.Replicas = append(many.Replicas, ReplicaStats{30 * i, 7 << 30, 500})
	}
	if n := len(many.append(nil)); n > 60_000 {
		t.Errorf("10,000 replicas take %d bytes", n)
	}
}

// TestPeers checks the knowledge about other nodes: reports, clock differences, unavailable nodes, and agreement.
func TestPeers(t *testing.T) {
	a, b, c := topology.NodeID{1}, topology.NodeID{2}, topology.NodeID{3}
	now := time.Unix(1_000_000, 0)
	w := &world{nodes: map[topology.NodeID]Host{
		b: &host{report: Report{Clock: now.Add(3 * time.Second), Records: 10, Leading: 4}},
		c: &host{report: Report{Records: 9, Clock: now}},
	}, cut: map[topology.NodeID]bool{}}
	var events []bool
	left := false
	p := New(
		a,
		w,
		Options{
			Left:    func() { left = true },
			Timeout: 10 * time.Millisecond,
			Now:     func() time.Time { return now },
			Steady:  func() time.Duration { return 0 },
			Changed: func(_ topology.NodeID, alive bool) { events = append(events, alive) },
		},
	)
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
	p.pollReports(t.Context()) // c answers
	if !p.Alive(c) || !slices.Equal(events, []bool{false, true}) {
		t.Errorf("c has returned, events: %v", events)
	}
	p.SendAcknowledged(t.Context(), map[topology.PartitionID]uint64{7: 70})
	if w.nodes[b].(*host).acknowledged[7] != 70 || w.nodes[c].(*host).acknowledged[7] != 70 {
		t.Error("the acknowledged positions were not sent")
	}
	p.AnnounceStop(t.Context())
	p.MarkStopping(b)
	if !w.nodes[b].(*host).stopped || !w.nodes[c].(*host).stopped || !p.Stopping()[b] || p.Stopping()[c] {
		t.Errorf("stopping: %v", p.Stopping())
	}
	w.nodes[b].(*host).report.Started = now
	p.pollReports(t.Context())
	if len(p.Stopping()) > 0 {
		t.Error("a new process of the node is taken for the one that ended")
	}
	w.nodes[b].(*host).report.Left = true
	p.pollReports(t.Context())
	if !left {
		t.Error("the node does not learn that it has left")
	}
	p.Watch([]topology.NodeID{a, b})
	if _, ok := p.Report(c); ok {
		t.Error("c is not forgotten")
	}
}

// TestJoin checks that the description of a new node arrives and that the reason of a rejection is returned.
func TestJoin(t *testing.T) {
	b := topology.NodeID{2}
	h := &host{}
	w := &world{nodes: map[topology.NodeID]Host{b: h}}
	n := JoinRequest{Node: topology.NodeID{1}, Internal: "127.0.0.9:7000"}
	got, err := Join(t.Context(), w, b, n)
	if err != nil || got.Replica != 7 || got.Nodes["127.0.0.9:7000"] != n.Node {
		t.Errorf("%+v %v", got, err)
	}
	h.report.Records = 17
	if version, err := Acquire(t.Context(), w, b); version != 17 || err != nil {
		t.Errorf("turn at version %d: %v", version, err)
	}
	h.admit = errors.New("no room")
	if _, err := Acquire(t.Context(), w, b); err == nil {
		t.Error("a turn that is none")
	}
	if _, err := Join(t.Context(), w, b, n); err == nil || err.Error() != "no room" {
		t.Errorf("refusal: %v", err)
	}
}

// TestFollow checks that a node learns about new schema versions of other nodes without waiting for their reports, and
// that AwaitVersion waits for them. A silent node delays it by Timeout or less.
func TestFollow(t *testing.T) {
	b, c := topology.NodeID{2}, topology.NodeID{3}
	h := &host{report: Report{Records: 9, Schema: [16]byte{9}}}
	w := &world{nodes: map[topology.NodeID]Host{b: h, c: h}, cut: map[topology.NodeID]bool{}}
	p := New(topology.NodeID{1}, w, Options{Timeout: 100 * time.Millisecond, Interval: time.Hour})
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

// TestMemoryAsItWas checks that Memory returns the value that a node had reported at any instant of the last seconds,
// and 0 for earlier times.
func TestMemoryAsItWas(t *testing.T) {
	b := topology.NodeID{2}
	p := New(topology.NodeID{1}, nil, Options{})
	p.Watch([]topology.NodeID{b})
	if m := p.Memory(b, time.Now()); m != 0 {
		t.Errorf("a node that has not reported has memory from %d", m)
	}
	var at []time.Time // times at which a value had been received, but not the next one
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

// TestYoung checks which nodes count as recently restarted: a node whose new process has been reported, until all
// other nodes know of it, and a returned node, until it has reported that its process is the same. A node that is
// reported for the first time does not count.
func TestYoung(t *testing.T) {
	b := topology.NodeID{2}
	synctest.Test(t, func(t *testing.T) {
		p := New(topology.NodeID{1}, nil, Options{Interval: time.Second})
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
