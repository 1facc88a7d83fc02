// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// inFleet runs a test with a fleet in virtual time. Node 1 is the coordinator, and node 2 leads every partition.
func inFleet(t *testing.T, partitions int, f func(t *testing.T, f *fleet, c *Coordinator)) {
	inFleetWith(t, partitions, Options{}, f)
}

func inFleetWith(t *testing.T, partitions int, o Options, f func(t *testing.T, f *fleet, c *Coordinator)) {
	synctest.Test(t, func(t *testing.T) {
		fl := newFleet()
		s := mapOf(t, partitions)
		for _, table := range s.Tables() {
			for _, p := range s.Partitions(table) {
				fl.leader[p.ID] = node(2)
			}
		}
		c := fl.join(t, s, o)
		f(t, fl, c)
		c.Close()
		synctest.Wait()
		if n := c.Stats().InFlight; n != 0 {
			t.Errorf("%d requests are still under way", n)
		}
	})
}

// TestForwardTargets checks the targets of requests. The target is the leader known to the local replica, the leader
// named in the last response, or the first replica in the topology. A read at ONE goes to the local replica. If the
// local replica rejects the read or does not exist, the read goes to the leader.
func TestForwardTargets(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		// Node 1 is the first node in the topology but has no replica. Therefore, the target is node 2.
		ok(writeNow(c, WriteOptions{}, put("k", "c", 1)))
		f.is(t, "write 1 at 2")
		// The leader has changed. The old leader returns the new leader, and the coordinator stores it.
		f.leader[1] = node(4)
		ok(writeNow(c, WriteOptions{}, put("k", "c", 2)))
		f.is(t, "write 1 at 2", "write 1 at 4")
		ok(writeNow(c, WriteOptions{}, put("k", "c", 3)))
		f.is(t, "write 1 at 4")
		// A response contains the current leader.
		f.leader[1] = node(3)
		c.LeaderChanged(1, node(3))
		_, err := readNow(t.Context(), c, dberr.One, "k")
		ok(err)
		f.is(t, "read(QUORUM) 1 at 3")
		// A local replica takes precedence over a hint.
		f.here[1] = true
		f.leader[1] = node(2)
		_, err = readNow(t.Context(), c, dberr.Quorum, "k")
		ok(err)
		f.is(t, "read(QUORUM) 1 at 2")
		// At ONE, the local replica receives the request and may reject the request.
		_, err = readNow(t.Context(), c, dberr.LocalOne, "k")
		ok(err)
		f.is(t, "read(LOCAL_ONE) 1 at 1", "read(QUORUM) 1 at 2")
		f.leader[1] = node(1)
		ok(writeNow(c, WriteOptions{}, put("k", "c", 4)))
		_, err = readNow(t.Context(), c, dberr.One, "k")
		ok(err)
		f.is(t, "write 1 at 1", "read(ONE) 1 at 1")
		s := c.Stats()
		if s.Forwarded != 7 || s.RetryReasons.NotLeader != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestOneIsServedHereOrByTheLeader checks a read at ONE that the local replica rejects. Only a leader may serve the
// read, because other followers do not know which writes this node has acknowledged.
func TestOneIsServedHereOrByTheLeader(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.here[1] = true
		f.leader[1] = node(4)
		f.script = func(a *asked) *verdict {
			if a.n < 2 { // initially, no replica knows the leader
				return &verdict{err: &partition.NotLeader{}}
			}
			return nil
		}
		if _, err := readNow(t.Context(), c, dberr.One, "k"); err != nil {
			t.Error(err)
		}
		f.is(t, "read(ONE) 1 at 1", "read(QUORUM) 1 at 4", "read(ONE) 1 at 1", "read(QUORUM) 1 at 4")
	})
}

// TestLeaderThatHasMoved checks the case in which the replica of the stored leader has moved to another node. The
// coordinator must stop sending requests to the old node and find the leader through other nodes.
func TestLeaderThatHasMoved(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.leader[1] = node(4)
		f.script = func(a *asked) *verdict {
			if a.node == node(2) {
				return &verdict{err: partition.ErrClosed}
			}
			return nil
		}
		c.LeaderChanged(1, node(2))
		if err := writeNow(c, WriteOptions{}, put("k", "c", 1)); err != nil {
			t.Error(err)
		}
		f.is(t, "write 1 at 2", "write 1 at 3", "write 1 at 4")
		c.LeaderChanged(1, node(2))
		if _, err := readNow(t.Context(), c, dberr.One, "k"); err != nil {
			t.Error(err)
		}
		f.is(t, "read(QUORUM) 1 at 2", "read(QUORUM) 1 at 3", "read(QUORUM) 1 at 4")
	})
}

// TestTraceNamesNodes checks that the trace names the node that has served the request.
func TestTraceNamesNodes(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.leader[1] = node(3)
		ctx, tr := traced()
		done := make(result, 1)
		c.Write(ctx, []command.Mutation{put("k", "c", 1)}, WriteOptions{}, done)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range tr.Events() {
			got = append(got, e.Activity)
		}
		want := []string{"Writing to physical partition 1 of table ks.t at node 10.0.0.2",
			"Retrying: physical partition 1 of table ks.t at node 10.0.0.3"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRetries checks that a write is retried with the same ID and the same bytes after a temporary failure. If the
// first attempt may have arrived, the retry must contain the age of the attempt. The write must be applied only once.
func TestRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		first verdict
		again bool // the second attempt must contain that an earlier attempt exists
	}{
		"not leader":       {first: verdict{err: &partition.NotLeader{}}},
		"not leader later": {first: verdict{err: &partition.NotLeader{}, async: true}},
		"closed":           {first: verdict{err: partition.ErrClosed}},
		"wrong range":      {first: verdict{err: &partition.WrongRange{}}},
		"unreachable":      {first: verdict{err: transport.ErrUnreachable, async: true}},
		"busy":             {first: verdict{err: transport.ErrBusy}},
		"latch": {first: verdict{err: &partition.LatchTimeout{Cause: context.DeadlineExceeded},
			async: true}},
		"uncertain":       {first: verdict{err: partition.ErrUncertain, async: true}, again: true},
		"uncertain, done": {first: verdict{err: partition.ErrUncertain, async: true, applied: true}, again: true},
		"under way":       {first: verdict{err: partition.ErrInProgress, async: true}, again: true},
		"lost":            {first: verdict{err: transport.ErrLost, async: true, applied: true}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
				for _, decide := range []bool{false, true} {
					f.take()
					n := 0
					f.script = func(a *asked) *verdict {
						if n++; n == 1 {
							return &tc.first
						}
						return nil
					}
					ms := []command.Mutation{put("k", "c", 1)}
					if decide {
						decided := make(result, 1)
						cond := &command.Conditional{Mutation: ms[0]}
						c.ConditionalWrite(t.Context(), cond, WriteOptions{}, decided)
						clear(cond.Mutation.Ops[0].Operand) // the caller may reuse the memory
						if err := <-decided; err != nil {
							t.Fatal(err)
						}
					} else {
						done := make(result, 1)
						c.Write(t.Context(), ms, WriteOptions{}, done)
						if !tc.first.applied {
							clear(ms[0].Ops[0].Operand) // the caller may reuse the memory
						}
						if err := <-done; err != nil {
							t.Fatal(err)
						}
					}
					if len(f.sent) < 2 {
						t.Fatalf("asked %d times", len(f.sent))
					}
					var first, second command.Mutation
					if err := errors.Join(command.DecodeMutation(&first, f.sent[0]),
						command.DecodeMutation(&second, f.sent[1])); err != nil {
						t.Fatal(err)
					}
					if second.Retried != tc.again || second.Retried && second.Known == 0 || first.Retried {
						t.Errorf("retried: %v, then %v knowing %d", first.Retried, second.Retried, second.Known)
					}
					for _, m := range []*command.Mutation{&first, &second} {
						m.Retried, m.Sent, m.Known = false, false, 0
					}
					if diff := cmp.Diff(first, second); diff != "" || first.Dedupe.Sequence < 1000 ||
						first.Dedupe.Coordinator != node(1) {
						t.Errorf("id %v, %s", first.Dedupe, diff)
					}
				}
				if len(f.ids) != 2 {
					t.Errorf("%d commands were applied", len(f.ids))
				}
			})
		})
	}
}

// stamping is a local leader that sets timestamps in place and then fails.
type stamping struct {
	*fake
	err   error
	async bool
}

func (r stamping) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	if v := r.ask("write", m); v != nil {
		return v.err
	}
	row.Stamp(m.Ops[0].Operand, 77)
	m.Timestamp = 77
	if r.async {
		go done.Done(command.Failed(r.err))
		return nil
	}
	return r.err
}

// TestStampsDoNotOutliveTheirLeader checks that the timestamp of a failed local leader does not affect the next
// attempt. The old timestamp may be lower than the timestamp of a write that a newer leader has already acknowledged.
func TestStampsDoNotOutliveTheirLeader(t *testing.T) {
	for _, async := range []bool{false, true} {
		inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
			f.here[1], f.leader[1] = true, node(1)
			c.cluster.local = localReplicas(func(id topology.PartitionID) Local {
				return stamping{&fake{f, node(1), id}, &partition.NotLeader{Leader: node(3)}, async}
			})
			f.script = func(a *asked) *verdict {
				if a.n == 0 {
					return nil
				}
				f.leader[1] = node(3)
				return nil
			}
			f.last[1], f.next = 100, 100 // timestamp of a write that node 3 has acknowledged
			ms := []command.Mutation{put("k", "c", 1)}
			if err := writeNow(c, WriteOptions{}, ms...); err != nil {
				t.Fatal(err)
			}
			var second command.Mutation
			if err := command.DecodeMutation(&second, f.sent[1]); err != nil || !second.Sent {
				t.Fatalf("sent: %t, %v", second.Sent, err)
			}
			second.Sent, second.Known = false, 0 // the first attempt does not contain these fields
			if ts := row.Timestamp(second.Ops[0].Operand); ts != row.Unstamped || second.Timestamp != 0 ||
				!bytes.Equal(f.sent[0], command.AppendMutation(nil, &second)) {
				t.Errorf("async %v: timestamp %d in the second attempt", async, ts)
			}
			for _, s := range f.rows {
				if s.stamp <= 100 {
					t.Errorf("the write is stamped %d, below what was acknowledged before", s.stamp)
				}
			}
		})
	}
}

// TestReadsAtTheFollowerHere checks that a local follower serves a read at QUORUM after it has contacted the leader. If
// the follower rejects the read, the next attempt must go to the leader. The coordinator must not treat the node that
// served a read as the leader for writes.
func TestReadsAtTheFollowerHere(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.here[1], f.asks[1], f.leader[1] = true, true, node(3)
		ms := []command.Mutation{put("k", "c", 1)}
		if err := writeNow(c, WriteOptions{}, ms...); err != nil {
			t.Fatal(err)
		}
		for _, level := range []dberr.Consistency{dberr.Quorum, dberr.Serial, dberr.All} {
			if got, err := readNow(t.Context(), c, level, "k"); err != nil || len(got) == 0 {
				t.Errorf("%v: %v, %v", level, got, err)
			}
		}
		f.script = func(a *asked) *verdict {
			if a.what == "read here" {
				return &verdict{err: &partition.NotLeader{Partition: 1, Leader: node(3)}}
			}
			return nil
		}
		if got, err := readNow(t.Context(), c, dberr.Quorum, "k"); err != nil || len(got) == 0 {
			t.Errorf("rejected on this node: %v, %v", got, err)
		}
		ms = []command.Mutation{put("k", "c", 1)}
		if err := writeNow(c, WriteOptions{}, ms...); err != nil {
			t.Fatal(err)
		}
		f.is(t, "write 1 at 3", "read here(QUORUM) 1", "read here(SERIAL) 1", "read here(ALL) 1",
			"read here(QUORUM) 1", "read(QUORUM) 1 at 3", "write 1 at 3")
	})
}

// TestSilentNode checks that a node that does not respond delays a request by only a third of the request's time limit.
func TestSilentNode(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.leader[1] = node(3)
		f.script = func(a *asked) *verdict {
			if a.node == node(2) {
				return &verdict{hang: true}
			}
			return nil
		}
		begin := time.Now()
		if _, err := readNow(t.Context(), c, dberr.Quorum, "k"); err != nil || time.Since(begin) > 5*time.Second/3+
			100*time.Millisecond {
			t.Errorf("a read: %v after %v", err, time.Since(begin))
		}
		f.is(t, "read(QUORUM) 1 at 2", "read(QUORUM) 1 at 3")
	})
}

// TestSilentLeaderIsReplaced checks that requests go to other nodes while the leader does not respond, although these
// nodes still report the old leader. The coordinator must find the newly elected leader immediately.
func TestSilentLeaderIsReplaced(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		hold := time.Now().Add(900 * time.Millisecond)
		f.script = func(a *asked) *verdict {
			if !time.Now().Before(hold) {
				f.leader[1] = node(3)
			}
			if a.node == node(2) {
				return &verdict{err: fmt.Errorf("%w: %w", partition.ErrUncertain, context.DeadlineExceeded),
					async: true, slow: time.Second * 2 / 3}
			}
			return nil
		}
		begin := time.Now()
		if err := writeNow(c, WriteOptions{}, put("k", "c", 1)); err != nil || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestTruthOfErrors checks the errors that clients receive. If too few replicas are alive and the request had no
// effect, the coordinator must return UNAVAILABLE immediately. If the outcome is unknown or the request could still
// have succeeded, the coordinator must return a timeout at the deadline.
func TestTruthOfErrors(t *testing.T) {
	type fixture func(f *fleet)
	down := func(nodes ...int) fixture {
		return func(f *fleet) {
			for _, n := range nodes {
				f.down[node(n)] = true
			}
			delete(f.leader, 1)
		}
	}
	for name, tc := range map[string]struct {
		fixture fixture
		level   dberr.Consistency
		read    bool
		want    error
		after   time.Duration
	}{
		"two of four": {down(3, 4), dberr.Quorum, false,
			&dberr.Unavailable{Level: dberr.Quorum, Required: 3, Alive: 2}, 0},
		"two of four, a read": {down(3, 4), dberr.LocalQuorum, true, &dberr.Unavailable{Level: dberr.LocalQuorum,
			Required: 3, Alive: 2}, 0},
		"two of four, a read at ONE": {down(3, 4), dberr.One, true, &dberr.Unavailable{Level: dberr.One, Required: 1,
			Alive: 0}, 0},
		"no leader": {down(4), dberr.Quorum, false, &dberr.WriteTimeout{Level: dberr.Quorum,
			BlockFor: 3, WriteType: "SIMPLE"}, 2 * time.Second},
		"no leader, read": {down(4), dberr.One, true, &dberr.ReadTimeout{Level: dberr.One, BlockFor: 1},
			5 * time.Second},
		"nobody knows, then too few": {func(f *fleet) {
			f.script = func(a *asked) *verdict {
				down(3, 4)(f)
				return &verdict{err: partition.ErrUncertain, async: true}
			}
		}, dberr.Quorum, false, &dberr.WriteTimeout{Level: dberr.Quorum, BlockFor: 3, WriteType: "SIMPLE"},
			2 * time.Second},
		"nobody knows, then refused": {func(f *fleet) {
			f.script = func(a *asked) *verdict {
				if a.n == 0 {
					return &verdict{err: partition.ErrUncertain, async: true}
				}
				return &verdict{err: partition.ErrStaleSchema}
			}
		}, dberr.Quorum, false, &dberr.WriteTimeout{Level: dberr.Quorum, BlockFor: 3, WriteType: "SIMPLE"}, 0},
		"nobody knows, then invalid": {func(f *fleet) {
			f.script = func(a *asked) *verdict {
				if a.n == 0 {
					return &verdict{err: transport.ErrLost, async: true, applied: true}
				}
				return &verdict{err: &dberr.Invalid{Message: "too little is left"}}
			}
		}, dberr.Quorum, false, &dberr.WriteTimeout{Level: dberr.Quorum, BlockFor: 3, WriteType: "SIMPLE"}, 0},
		"nobody knows, then dropped": {func(f *fleet) {
			f.script = func(a *asked) *verdict {
				if a.n == 0 {
					return &verdict{err: transport.ErrLost, async: true, applied: true}
				}
				return &verdict{err: ErrUnknownTable}
			}
		}, dberr.Quorum, false, ErrUnknownTable, 0},
		"invalid": {func(f *fleet) {
			f.script = func(a *asked) *verdict { return &verdict{err: &dberr.Invalid{Message: "x"}, async: true} }
		}, dberr.Quorum, false, &dberr.Invalid{Message: "x"}, 0},
		"stale": {func(f *fleet) {
			f.script = func(a *asked) *verdict { return &verdict{err: partition.ErrStaleSchema, async: true} }
		}, dberr.Quorum, false, ErrStaleSchema, 0},
		"overloaded": {func(f *fleet) {
			f.script = func(a *asked) *verdict { return &verdict{err: &dberr.Overloaded{Message: "x"}, async: true} }
		}, dberr.Quorum, false, &dberr.Overloaded{Message: "x"}, 0},
		"hangs here": {func(f *fleet) {
			f.here[1], f.leader[1] = true, node(1)
			f.script = func(a *asked) *verdict { return &verdict{hang: true} }
		}, dberr.Quorum, false, &dberr.WriteTimeout{Level: dberr.Quorum, BlockFor: 3, WriteType: "SIMPLE"},
			2 * time.Second},
		"disk": {func(f *fleet) {
			f.script = func(a *asked) *verdict { return &verdict{err: partition.ErrStopped, async: true} }
		}, dberr.Quorum, false, &dberr.WriteFailure{Level: dberr.Quorum, BlockFor: 3, Failures: 1, WriteType: "SIMPLE",
			Message: partition.ErrStopped.Error()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
				tc.fixture(f)
				begin := time.Now()
				var err error
				if tc.read {
					_, err = readNow(t.Context(), c, tc.level, "k")
				} else {
					err = writeNow(c, WriteOptions{Level: tc.level}, put("k", "c", 1))
				}
				if diff := cmp.Diff(fmt.Sprintf("%#v", tc.want), fmt.Sprintf("%#v", err)); diff != "" &&
					!errors.Is(err, ErrStaleSchema) {
					t.Error(diff)
				}
				if took := time.Since(begin); took < tc.after || took > tc.after+100*time.Millisecond {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// TestWaitingEnds checks that a waiting request continues immediately when a leader becomes known or the topology
// changes.
func TestWaitingEnds(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		delete(f.leader, 1)
		for _, event := range []func(){
			func() { c.LeaderChanged(1, node(3)) },
			func() { c.SetTopology(c.Topology().DropTable(table + 50)) },
		} {
			done := make(result, 1)
			c.Write(t.Context(), []command.Mutation{put("k", "c", 1)}, WriteOptions{}, done)
			time.Sleep(time.Second + 7*time.Millisecond)
			f.mu.Lock()
			f.leader[1] = node(3)
			f.mu.Unlock()
			begin := time.Now()
			event()
			if err := <-done; err != nil || time.Since(begin) > 0 {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			f.mu.Lock()
			delete(f.leader, 1)
			f.mu.Unlock()
			c.LeaderChanged(1, topology.NodeID{})
		}
	})
}

// TestUnconfirmedReads checks reads that cannot be confirmed. If rows of the current physical partition have been
// delivered, the session must restart the read. Otherwise, the coordinator must retry the read.
func TestUnconfirmedReads(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet, c *Coordinator) {
		for k := range 20 {
			if err := writeNow(c, WriteOptions{}, put(fmt.Sprint("k", k), "c", int64(k))); err != nil {
				t.Fatal(err)
			}
		}
		whole, err := readNow(t.Context(), c, dberr.Quorum, "")
		if err != nil || len(whole) != 40 {
			t.Fatal(len(whole), err)
		}
		fail := func(at int, v verdict) {
			n := 0
			f.script = func(a *asked) *verdict {
				if n++; n == at {
					return &v
				}
				return nil
			}
		}
		for at := 1; at <= 4; at++ {
			for _, reason := range []error{partition.ErrUnconfirmed, &partition.NotLeader{}, partition.ErrUncertain,
				partition.ErrClosed} {
				fail(at, verdict{err: reason, applied: true})
				if _, err := readNow(t.Context(), c, dberr.Quorum, ""); !errors.Is(err, ErrRepeat) {
					t.Errorf("%v after the rows of partition %d: %v", reason, at, err)
				}
				fail(at, verdict{err: reason})
				if got, err := readNow(t.Context(), c, dberr.Quorum, ""); err != nil || !slices.Equal(got, whole) {
					t.Errorf("%v before the rows of partition %d: %v, %d lines", reason, at, err, len(got))
				}
			}
		}
		fail(1, verdict{err: partition.ErrUnconfirmed, applied: true})
		if _, err := readNow(t.Context(), c, dberr.Quorum, "k1"); !errors.Is(err, ErrRepeat) {
			t.Errorf("a key: %v", err)
		}
		if n := c.Stats().ReadRestarts; n != 17 {
			t.Errorf("%d reads repeated", n)
		}
	})
}

// TestSentIsAttested checks that a replica can detect duplicates of forwarded writes. A forwarded write must contain
// the dedupe epoch of the replica, because the write may arrive after later attempts, at a process that does not know
// these attempts. A replica that cannot detect a duplicate returns its current epoch. If no attempt can have been
// applied, the coordinator must send the write again immediately with this epoch.
func TestSentIsAttested(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		c.cluster.Peers = fleetPeers{f, 5}
		at := func(s *writeRequest, to target) (m command.Mutation) {
			m = put("k", "c", 1)
			s.setAddress(&m, &to, &topology.Partition{ID: 1})
			return m
		}
		third := target{node: node(3), remote: true}
		s := &writeRequest{routedRequest: c.newRequest(dberr.Quorum, time.Second)}
		if m := at(s, target{node: node(1)}); m.Sent || m.Retried {
			t.Errorf("here: %+v", m)
		}
		for _, via := range []topology.NodeID{{}, node(2)} {
			if m := at(s, target{node: node(3), remote: true, via: via}); !m.Sent || m.Retried || m.Known != 5 {
				t.Errorf("through node %v: %+v", via[0], m)
			}
		}
		if !s.handleFailure(&third, &partition.DedupeUnknown{Epoch: 9}) || s.maybeApplied || s.leaderHint != node(3) {
			t.Errorf("after a rejection: %+v", s.routedRequest)
		}
		if m := at(s, third); !m.Sent || m.Known != 9 {
			t.Errorf("the second time: %+v", m)
		}
		if m := at(s, target{node: node(2), remote: true}); m.Known != 5 {
			t.Errorf("at another node: %+v", m)
		}
		s.handleFailure(&third, partition.ErrUncertain)
		if m := at(s, third); m.Sent || !m.Retried || m.Known != 9 {
			t.Errorf("after an attempt without an answer: %+v", m)
		}
	})
}

// TestSeenAtHome checks that reads from the local replica include a forwarded write.
func TestSeenAtHome(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.here[1] = true
		if err := writeNow(c, WriteOptions{}, put("k", "c", 1)); err != nil {
			t.Fatal(err)
		}
		if f.seen[1] == 0 {
			t.Error("the local replica does not have the write")
		}
	})
}

// TestTruncateInCluster checks that TRUNCATE removes the rows of every partition and that the coordinator retries
// TRUNCATE.
func TestTruncateInCluster(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		for k := range 20 {
			if err := writeNow(c, WriteOptions{}, put(fmt.Sprint("k", k), "c", int64(k))); err != nil {
				t.Fatal(err)
			}
		}
		f.leader[3] = node(4)
		n := 0
		f.script = func(a *asked) *verdict {
			if n++; n%5 == 0 {
				return &verdict{err: partition.ErrUncertain, async: true}
			}
			return nil
		}
		if err := c.Truncate(t.Context(), table); err != nil || len(f.rows) != 0 {
			t.Error(err, len(f.rows))
		}
		f.script = nil
		f.down[node(3)], f.down[node(4)] = true, true
		f.leader = map[topology.PartitionID]topology.NodeID{}
		c.LeaderChanged(3, topology.NodeID{})
		var refused *dberr.Truncate
		if err := c.Truncate(t.Context(), table); !errors.As(err, &refused) {
			t.Errorf("without a quorum: %v", err)
		}
	})
}

// TestWholeOfPartitions checks that TRUNCATE and Require reach every row of a table whose partitions split at the same
// time. A command that was planned with the old topology must be rejected and planned again.
func TestWholeOfPartitions(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet, c *Coordinator) {
		for k := range 20 {
			if err := writeNow(c, WriteOptions{}, put(fmt.Sprint("k", k), "c", int64(k))); err != nil {
				t.Fatal(err)
			}
		}
		// The first partition splits. The rows of the right half belong to the new partition. The topology is updated
		// later.
		old := c.Topology()
		first := old.Partitions(table)[0]
		halves, err := split(old, first.ID, topology.Position{Ring: 1 << 62})
		if err != nil {
			t.Fatal(err)
		}
		right := halves.Partitions(table)[1]
		f.epochs[first.ID], f.epochs[right.ID] = 2, 2
		f.leader[right.ID] = f.leader[first.ID]
		moved := 0
		for place, s := range f.rows {
			if right.Span.Contains(token.Hash(s.key), s.key) {
				s.partition = right.ID
				f.rows[place] = s
				moved++
			}
		}
		if moved == 0 {
			t.Fatal("the split has moved no row")
		}
		time.AfterFunc(100*time.Millisecond, func() { c.SetTopology(halves) })
		if err := c.Truncate(t.Context(), table); err != nil || len(f.rows) != 0 {
			t.Errorf("truncated: %v, %d rows are left", err, len(f.rows))
		}
		// The partitions are merged again before the other command runs.
		merged, err := halves.BeginMerge(first.ID, right.ID, topology.ByOperator, time.Now())
		if err == nil {
			for _, m := range right.Sets[0].Replicas {
				if merged, err = merged.MergeReady(right.ID, m.ID, 12, time.Now()); err != nil {
					break
				}
			}
		}
		if err == nil {
			merged, err = merged.EndMerge(first.ID, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		f.epochs[first.ID], f.epochs[right.ID] = 3, 9
		time.AfterFunc(100*time.Millisecond, func() { c.SetTopology(merged) })
		if err := c.Require(t.Context(), table, 7, time.Second); err != nil {
			t.Error(err)
		}
		for _, p := range merged.Partitions(table) {
			if f.required[p.ID] != 7 {
				t.Errorf("partition %d requires revision %d", p.ID, f.required[p.ID])
			}
		}
		// If the topology is never updated, the caller must get an error instead of success.
		f.epochs[first.ID] = 4
		if err := c.Require(t.Context(), table, 8, time.Second); err == nil {
			t.Error("another partition was accepted as this partition")
		}
	})
}

// TestClose checks that Close ends waiting requests and leaves no goroutines running. The outcome of the waiting
// requests must be unknown.
func TestClose(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		f.script = func(*asked) *verdict { return &verdict{err: partition.ErrUncertain, async: true} }
		done := make(result, 2)
		c.Write(t.Context(), []command.Mutation{put("k", "c", 1)}, WriteOptions{}, done)
		c.Write(t.Context(), spread(c, 3), WriteOptions{Atomic: true, Type: "BATCH"}, done)
		time.Sleep(time.Second)
		begin := time.Now()
		c.Close()
		for range 2 {
			var late *dberr.WriteTimeout
			if err := <-done; !errors.As(err, &late) || time.Since(begin) > 0 {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}
	})
}
