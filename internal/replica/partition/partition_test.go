// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// TestAcknowledgedAfterSync checks that no write is acknowledged in Synced mode before a sync that began after the
// write was applied. One sync must cover all writes that arrived before it.
func TestAcknowledgedAfterSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{Durability: Synced})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.syncing = func() error { <-gate; return nil }
		before := s.syncs.Load()

		const n = 10
		done := make(result, n)
		for i := range n {
			if err := r.Write(t.Context(), put("k", int64(i)), done); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first sync is in progress, and the other writes wait
		}
		if len(done) != 0 {
			t.Fatalf("%d writes were acknowledged before any sync", len(done))
		}
		gate <- struct{}{}
		synctest.Wait()
		if len(done) != 1 {
			t.Fatalf("the first sync acknowledged %d writes, only one was applied before it", len(done))
		}
		gate <- struct{}{}
		synctest.Wait()
		if len(done) != n || s.syncs.Load()-before != 2 {
			t.Fatalf("%d of %d writes acknowledged by %d syncs", len(done), n, s.syncs.Load()-before)
		}
		s.syncing = nil
	})
}

// TestRefusalWaitsForSync checks that a conditional write that is not applied also waits for a sync if the values that
// it returns are not durable yet.
func TestRefusalWaitsForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{Durability: Synced})
		defer closeHost(t, h)
		gate := make(chan struct{})
		s.syncing = func() error { <-gate; return nil }
		done := make(command.OutcomeChannel, 1)
		r := h.Replicas()[0]
		if err := r.Write(t.Context(), put("k", 7), make(result, 1)); err != nil {
			t.Fatal(err)
		}
		if err := r.ConditionalWrite(t.Context(), swap("k", wire(1), 2), done); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("notified before the sync")
		}
		close(gate)
		if o := <-done; o.Err != nil || o.CAS.Applied {
			t.Fatalf("got %+v, want a rejection", o)
		}
	})
}

// TestFailedSyncStops checks that a failed sync fails all writes that it should have made durable, stops the host, and
// is never retried.
func TestFailedSyncStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{Durability: Synced})
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.syncing = func() error { <-gate; return errors.New("input/output error") }
		done := make(result, 2)
		for i := range 2 {
			if err := r.Write(t.Context(), put("k", int64(i)), done); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		syncs := s.syncs.Load()
		for range 2 {
			if err := <-done; !errors.Is(err, ErrStopped) {
				t.Fatalf("got %v, want ErrStopped", err)
			}
		}
		if err := write(t.Context(), r, put("k", 3)); !errors.Is(err, ErrStopped) {
			t.Fatalf("a later write got %v, want ErrStopped", err)
		}
		if _, err := decide(t.Context(), r, add("k", 3)); !errors.Is(err, ErrStopped) {
			t.Fatalf("a later conditional got %v, want ErrStopped", err)
		}
		if err := h.Close(); !errors.Is(err, ErrStopped) {
			t.Fatalf("Close: %v, want ErrStopped", err)
		}
		if s.syncs.Load() != syncs {
			t.Fatal("synced again after a failure")
		}
	})
}

// TestPeriodic checks that, in Periodic mode, a write is acknowledged immediately and is durable after one interval. An
// idle node must never sync.
func TestPeriodic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{SyncInterval: 10 * time.Millisecond})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		before := s.syncs.Load()
		time.Sleep(time.Hour)
		if s.syncs.Load() != before {
			t.Fatalf("an idle hour took %d syncs", s.syncs.Load()-before)
		}
		for i := range 100 {
			done := make(result, 1)
			if err := r.Write(t.Context(), put("k", int64(i)), done); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(done) != 1 {
				t.Fatal("not acknowledged immediately")
			}
		}
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		if s.syncs.Load() != before+1 {
			t.Fatalf("%d syncs for one interval of writes", s.syncs.Load()-before)
		}
		reopened := open(t, s.crash(), 1, Options{})
		defer closeHost(t, reopened)
		if v, _ := read(t, reopened.Replicas()[0], "k"); v != 99 {
			t.Fatalf("after a crash the value is %d, want 99", v)
		}
	})
}

// TestStampsFollowCommits checks that timestamps ascend in log order for each logical partition, with a clock that does
// not advance and many writers.
func TestStampsFollowCommits(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	h := open(t, newStore(t), 1, Options{Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	log := record(r)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				key := fmt.Sprint("k", (i+j)%3)
				var err error
				if (i+j)%5 == 0 {
					_, err = decide(t.Context(), r, add(key, 1))
				} else {
					err = write(t.Context(), r, put(key, int64(j)))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	last := map[string]int64{}
	for _, m := range log.ms {
		if m.Timestamp <= last[string(m.Key)] {
			t.Fatalf("key %s: stamp %d was proposed after %d", m.Key, m.Timestamp, last[string(m.Key)])
		}
		if got := row.Timestamp(m.Ops[0].Operand); got != m.Timestamp {
			t.Fatalf("operand has %d, mutation %d", got, m.Timestamp)
		}
		last[string(m.Key)] = m.Timestamp
	}
	if len(log.ms) != 16*50 {
		t.Fatalf("%d mutations were proposed, want %d", len(log.ms), 16*50)
	}
}

// TestStampsAfterCrash checks that new timestamps are higher than all applied timestamps after a crash, although the
// clock is an hour behind. The meta contains the highest applied timestamp.
func TestStampsAfterCrash(t *testing.T) {
	s := newStore(t)
	var now atomic.Int64 // in microseconds; a host reads it once per second
	now.Store(10_000_000_000)
	o := Options{Durability: Synced, Clock: testClock(func() time.Time { return time.UnixMicro(now.Load()) })}
	h := open(t, s, 1, o)
	for i := range 100 {
		if err := write(t.Context(), h.Replicas()[0], put("k", int64(i))); err != nil {
			t.Fatal(err)
		}
		if _, stamp := read(t, h.Replicas()[0], "k"); s.metas()[0].MaxTimestamp != stamp || stamp != now.Load() {
			t.Fatalf("stamp %d, the meta has %d", stamp, s.metas()[0].MaxTimestamp)
		}
		now.Add((50 * time.Millisecond).Microseconds())
	}
	after := s.crash()
	closeHost(t, h)
	now.Add(-time.Hour.Microseconds())
	h = open(t, after, 1, o)
	defer closeHost(t, h)
	if err := write(t.Context(), h.Replicas()[0], put("k", 1000)); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, h.Replicas()[0], "k"); v != 1000 {
		t.Fatalf("the write after the crash lost against one before it: %d", v)
	}
}

// TestClientTimestamps checks that client timestamps are not changed.
func TestClientTimestamps(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	m := put("k", 7)
	row.Stamp(m.Ops[0].Operand, 5)
	if err := write(t.Context(), r, m); err != nil {
		t.Fatal(err)
	}
	if v, ts := read(t, r, "k"); v != 7 || ts != 5 {
		t.Fatalf("got %d at %d, want 7 at 5", v, ts)
	}
}

// TestConditionalsAreExact checks that counters and compare-and-set operations are exact under concurrency. Other
// goroutines concurrently write other keys.
func TestConditionalsAreExact(t *testing.T) {
	for _, mode := range []Durability{Periodic, Synced} {
		h := open(t, newStore(t), 1, Options{Durability: mode})
		r := h.Replicas()[0]
		const workers, each = 64, 20
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := range each {
					if _, err := decide(t.Context(), r, add("counter", 2)); err != nil {
						t.Error(err)
					}
					if err := write(t.Context(), r, put("other", int64(i))); err != nil {
						t.Error(err)
					}
				}
				increment(t, r, "cas")
			})
		}
		wg.Wait()
		if v, _ := read(t, r, "counter"); v != 2*workers*each {
			t.Errorf("mode %d: counter is %d, want %d", mode, v, 2*workers*each)
		}
		if v, _ := read(t, r, "cas"); v != workers {
			t.Errorf("mode %d: %d increments by compare-and-set, want %d", mode, v, workers)
		}
		closeHost(t, h)
	}
}

// increment retries until its compare-and-set operation is applied.
func increment(t *testing.T, r *Replica, key string) {
	var prev []byte
	next := int64(1)
	for {
		d, err := decide(t.Context(), r, swap(key, prev, next))
		if err != nil {
			t.Error(err)
			return
		}
		if d.Applied {
			return
		}
		prev = d.Found[0].Cell(1).Value
		next = int64(binary.BigEndian.Uint64(prev)) + 1
	}
}

// TestLatchHoldsBackBlindWrites checks that blind writes of a key wait while a conditional of the key is evaluated.
// Other writes must not wait, and the queue must be served in order.
func TestLatchHoldsBackBlindWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.reading = func() { <-gate }
		done := make(command.OutcomeChannel, 3)
		blind := make(result, 1)
		go func() { _ = r.ConditionalWrite(t.Context(), swap("k", nil, 1), done) }()
		synctest.Wait()
		go func() { _ = r.Write(t.Context(), put("k", 2), blind) }()
		synctest.Wait()
		go func() { _ = r.ConditionalWrite(t.Context(), swap("k", wire(2), 3), done) }()
		synctest.Wait()
		if err := write(t.Context(), r, put("elsewhere", 1)); err != nil {
			t.Fatal(err)
		}
		if len(blind) != 0 {
			t.Fatal("a blind write overtook the conditional that holds its key")
		}
		close(gate)
		for range 2 {
			if o := <-done; o.Err != nil || !o.CAS.Applied {
				t.Fatalf("got %+v, want both applied, the second after the blind write", o)
			}
		}
		if v, _ := read(t, r, "k"); v != 3 {
			t.Fatalf("the value is %d, want 3", v)
		}
	})
}

// TestAdmittedUnderMutex checks that a write is admitted and proposed while it holds the mutex of its stripe, even if
// it had to wait for a latch. Splits, merges, and schema requirements change the admission rules and then wait until
// all requests have released the mutexes. No previously admitted request may be proposed after this wait.
func TestAdmittedUnderMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		judged := 0
		s.admitting = func(m *command.Mutation) {
			judged++
			if mu := &h.latches.stripes[stripeOf(m.Table, m.Token)].mu; mu.TryLock() {
				mu.Unlock()
				t.Errorf("write %d is judged outside of the mutex", judged)
			}
		}
		gate := make(chan struct{})
		s.reading = func() { <-gate }
		done, blind := make(command.OutcomeChannel, 1), make(result, 1)
		go func() { _ = r.ConditionalWrite(t.Context(), swap("k", nil, 1), done) }()
		synctest.Wait()
		go func() { _ = r.Write(t.Context(), put("k", 2), blind) }() // this write waits for a latch
		synctest.Wait()
		close(gate)
		if o, err := <-done, <-blind; o.Err != nil || err != nil {
			t.Fatal(o.Err, err)
		}
		if err := write(t.Context(), r, put("k", 3)); err != nil {
			t.Fatal(err)
		}
		all := make(result, 1)
		if err := r.WriteAll(t.Context(), []Part{{Mutation: put("k", 4)}}, all); err != nil {
			t.Fatal(err)
		}
		if err := <-all; err != nil {
			t.Fatal(err)
		}
		if judged != 4 {
			t.Errorf("%d writes were judged", judged)
		}
	})
}

// TestLatchBounds checks that a request that waits for a key fails at its deadline without effect, and that requests
// are rejected immediately if the queue is full.
func TestLatchBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{LatchQueueMax: 2, LatchWait: time.Second})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.reading = func() { <-gate }
		held := make(command.OutcomeChannel, 1)
		go func() { _ = r.ConditionalWrite(t.Context(), add("k", 1), held) }()
		synctest.Wait()

		errs := make(chan error, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for _, c := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := decide(c, r, add("k", 1))
				errs <- err
			}()
			synctest.Wait()
		}
		var full *dberr.Overloaded
		if _, err := decide(t.Context(), r, add("k", 1)); !errors.As(err, &full) {
			t.Fatalf("got %v, want Overloaded", err)
		}
		for range 2 {
			var late *LatchTimeout
			if err := <-errs; !errors.As(err, &late) {
				t.Fatalf("got %v, want LatchTimeout", err)
			}
		}
		close(gate)
		<-held
		if v, _ := read(t, r, "k"); v != 1 {
			t.Fatalf("the counter is %d, want 1: those that gave up must not count", v)
		}
		if n := h.seqs.(*committer).waiting.Load(); n != 0 {
			t.Fatalf("%d places of the group are lost", n)
		}
	})
}

// TestDedupe checks that a command with a dedupe ID is applied only once, even if it is repeated after a crash.
func TestDedupe(t *testing.T) {
	s := newStore(t)
	o := Options{Durability: Synced}
	h := open(t, s, 1, o)
	c := add("k", 5)
	c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 7}
	for range 2 {
		if d, err := decide(t.Context(), h.Replicas()[0], c); err != nil || !d.Applied {
			t.Fatal(d, err)
		}
	}
	after := s.crash()
	closeHost(t, h)
	h = open(t, after, 1, o)
	defer closeHost(t, h)
	if d, err := decide(t.Context(), h.Replicas()[0], c); err != nil || !d.Applied {
		t.Fatal(d, err)
	}
	if v, _ := read(t, h.Replicas()[0], "k"); v != 5 {
		t.Fatalf("counter is %d, want 5", v)
	}
}

// TestRefusalIsKept checks that the result of a retry that writes no data is final. A late earlier attempt must have no
// effect, even if its condition has become true. A command without a retry must not store a result.
func TestRefusalIsKept(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Durability: Synced})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	attempt := func(id uint64, repeated bool) bool {
		c := swap("k", wire(1), 2)
		c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: id}
		c.Mutation.Retried = repeated
		d, err := decide(t.Context(), r, c)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Applied && (len(d.Found) != 1 || d.Found[0] != nil && d.Found[0].Cell(1) == nil) {
			t.Errorf("rejected conditional: got %+v", d.Found)
		}
		return d.Applied
	}
	if attempt(1, true) || attempt(2, false) {
		t.Fatal("a condition on a missing row holds")
	}
	if err := write(t.Context(), r, put("k", 1)); err != nil {
		t.Fatal(err)
	}
	if attempt(1, false) || attempt(1, true) {
		t.Error("a late attempt applied a write that was reported as not executed")
	}
	if !attempt(2, false) {
		t.Error("the result of a rejected first attempt is kept")
	}
}

// TestWriteAllIsAtomic checks that several mutations of one partition form one entry with one timestamp, even if
// several of their keys share a stripe. They must never deadlock with other writes or conditionals.
func TestWriteAllIsAtomic(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 1, Options{Durability: Synced})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				var parts []Part
				for k := range 200 { // more keys than stripes, so some keys share a stripe
					key := fmt.Sprint("key", (k*7+w*13+i)%200)
					parts = append(parts, Part{Mutation: put(key, int64(w*1000+i))})
				}
				done := make(result, 1)
				if err := r.WriteAll(t.Context(), parts, done); err != nil {
					t.Error(err)
					return
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if _, err := decide(t.Context(), r, add("key1", 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v0, ts0 := read(t, r, "key0")
	for k := range 200 {
		key := fmt.Sprint("key", k)
		if key == "key1" {
			continue // the counters have set a new timestamp
		}
		if v, ts := read(t, r, key); v != v0 || ts != ts0 {
			t.Fatalf("%s is %d at %d, key0 is %d at %d: half a batch", key, v, ts, v0, ts0)
		}
	}
}

// TestWriteAllUpdates checks that updates that depend on stored rows are part of an atomic write. They must be applied
// with the other mutations at the same timestamp. If one update cannot be evaluated, no write must be applied.
func TestWriteAllUpdates(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 1, Options{Durability: Synced})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	part := func(c *command.Conditional) Part {
		return Part{Mutation: &c.Mutation, Updates: c}
	}
	plain := func(key string, v int64) Part {
		p := part(&command.Conditional{Mutation: *put(key, v)})
		p.Updates = nil
		return p
	}
	atomically := func(parts ...Part) error {
		done := make(result, 1)
		if err := r.WriteAll(t.Context(), parts, done); err != nil {
			return err
		}
		return <-done
	}
	for i := range int64(3) {
		if err := atomically(plain("a", i+1), part(add("b", 2)), part(add("c", 5))); err != nil {
			t.Fatal(err)
		}
	}
	a, stamp := read(t, r, "a")
	b, _ := read(t, r, "b")
	c, stampC := read(t, r, "c")
	if a != 3 || b != 6 || c != 15 || stamp != stampC {
		t.Errorf("a %d at %d, b %d, c %d at %d", a, stamp, b, c, stampC)
	}
	list := &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{bigint}}
	impossible := add("d", 1)
	impossible.Updates = append(impossible.Updates, command.Update{Kind: command.ListSetAt, Column: 2, Type: list,
		Args: [][]byte{{0, 0, 0, 0}, wire(1)}, Timestamp: row.Unstamped})
	before := r.Applied()
	var invalid *dberr.Invalid
	if err := atomically(plain("a", 9), part(add("b", 1)), part(impossible)); !errors.As(err, &invalid) {
		t.Errorf("a missing list element was set: %v", err)
	}
	if r.Applied() != before {
		t.Error("the rest of the batch was applied")
	}
	if err := atomically(part(add("b", 1))); err != nil { // the latches are free, and a single update succeeds, too
		t.Error(err)
	}
}

// TestSpans checks that a replica rejects keys outside its span, and that the spans of a node never overlap.
func TestSpans(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 4, Options{})
	defer closeHost(t, h)
	m := testMap(t, 4)
	c := put("k", 1)
	own := m.Locate(testTable, c.Token, c.Key)
	for _, p := range m.Partitions(testTable) {
		err := write(t.Context(), h.Replica(p.ID), put("k", 1))
		var wrong *WrongRange
		if (p == own) != (err == nil) || err != nil &&
			(!errors.As(err, &wrong) || wrong.Have.Contains(c.Token, c.Key)) {
			t.Errorf("partition %d, %s: %v", p.ID, p.Span, err)
		}
	}
	overlapping := &topology.Partition{ID: 99, Table: testTable, Epoch: 1, Span: own.Span}
	if err := h.Create(overlapping); err == nil {
		t.Error("a second replica of the same span was created")
	}
	if err := h.Create(m.Partitions(testTable)...); err != nil {
		t.Errorf("creating an existing group: %v", err)
	}
	for _, meta := range s.metas() {
		if meta.Applied > keys.InitialApplied+1 || meta.Term != keys.InitialTerm || meta.Epoch != 1 ||
			len(meta.Voters) != 1 {
			t.Errorf("birth record %+v", meta)
		}
	}
}

// TestRepeatAfterTruncate checks an increment that is retried after a TRUNCATE because the response was lost. The retry
// must return the result of the first attempt and have no effect.
func TestRepeatAfterTruncate(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	c := add("k", 5)
	c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 7}
	for i := range 2 {
		d, err := decide(t.Context(), r, c)
		if err != nil || !d.Applied {
			t.Fatalf("attempt %d: %+v, %v", i, d, err)
		}
		if i == 0 {
			done := make(result, 1)
			if err := r.Truncate(t.Context(), r.Extent(), Truncation{}, done); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if v, _ := read(t, r, "k"); i == 1 && v != 0 {
			t.Errorf("the counter was truncated, and is %d", v)
		}
	}
}

// TestTruncateAndDrop checks that Truncate and Drop remove the rows. A dropped replica must reject requests and must
// not exist after a restart.
func TestTruncateAndDrop(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 2, Options{Durability: Synced})
	m := testMap(t, 2)
	c := put("k", 1)
	r := h.Replica(m.Locate(testTable, c.Token, c.Key).ID)
	if err := write(t.Context(), r, c); err != nil {
		t.Fatal(err)
	}
	done := make(result, 1)
	if err := r.Truncate(t.Context(), r.Extent(), Truncation{}, done); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, r, "k"); v != 0 {
		t.Fatal("the row survived a truncate")
	}
	if err := write(t.Context(), r, put("k", 2)); err != nil {
		t.Fatal("a write after the truncate:", err)
	}
	if err := h.Drop(r.ID()); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), r, put("k", 3)); !errors.Is(err, ErrClosed) {
		t.Fatalf("a write to a dropped replica: %v", err)
	}
	after := s.crash()
	closeHost(t, h)
	h, err := Open(after, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeHost(t, h)
	if len(h.Replicas()) != 1 {
		t.Fatalf("%d replicas after dropping one of two", len(h.Replicas()))
	}
}

// TestRequire checks that a replica that requires a schema rejects statements planned for an older schema. This
// includes a conditional that was being evaluated when the requirement arrived, and that follows the requirement in the
// log.
func TestRequire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.reading = func() { <-gate }
		old := swap("k", nil, 1)
		old.Mutation.SchemaVersion = 4
		done := make(command.OutcomeChannel, 1)
		go func() { _ = r.ConditionalWrite(t.Context(), old, done) }()
		synctest.Wait()
		if err := r.Require(t.Context(), r.Extent(), 5); err != nil {
			t.Fatal(err)
		}
		close(gate)
		synctest.Wait()
		if err := write(t.Context(), r, put("k", 7)); err != nil {
			t.Fatal(err)
		}
		if v, _ := read(t, r, "k"); v != 7 {
			t.Fatalf("%d", v)
		}
		for version, want := range map[uint64]error{4: ErrStaleSchema, 5: nil, 6: nil, 0: nil} {
			m := put("k", 2)
			m.SchemaVersion = version
			if err := write(t.Context(), r, m); !errors.Is(err, want) {
				t.Errorf("version %d: %v, want %v", version, err, want)
			}
		}
		if m := s.metas()[0]; m.SchemaVersion != 5 {
			t.Errorf("the meta has %d", m.SchemaVersion)
		}
	})
}

// TestCounts checks that every request is counted and charged.
func TestCounts(t *testing.T) {
	// The clock does not advance, because the lists are reset at the end of each minute, and the host also resets them
	// on its own.
	now := time.Unix(1_800_000_010, 0)
	h := open(t, newStore(t), 1, Options{Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	if err := write(t.Context(), r, put("k", 1)); err != nil {
		t.Fatal(err)
	}
	read(t, r, "k")
	read(t, r, "nothing")
	if _, err := decide(t.Context(), r, add("k", 1)); err != nil {
		t.Fatal(err)
	}
	c := r.Load().Counts()
	if c.Writes != 2 || c.Conditions != 1 || c.Reads != 3 || c.RowsRead != 2 || c.Units.Float() != 5+1+1+1+5 {
		t.Fatalf("%+v, %v RU", c, c.Units.Float())
	}
	u := r.Load().Usage().Counts()
	if u.Requests[usage.Point] != 2 || u.Requests[usage.Update] != 1 || u.RequestCount() != 4 ||
		u.Units[usage.Applied].Float() != 5 {
		t.Errorf("by kind: %+v", u)
	}
	h.TickUsage(now.Add(time.Second))
	h.TickUsage(now.Add(2 * time.Second))
	top := r.Load().Hottest(2)
	if len(top.Keys) != 2 || top.Keys[0].Token != token.Hash([]byte("k")) || top.Keys[0].Units.Float() != 5+1+1+5 ||
		top.Keys[1].Token != token.Hash([]byte("nothing")) {
		t.Errorf("user with the highest load: got %+v", top)
	}
}

// TestAppliedWriteIsChargedOnce checks that a retry of a write that was applied is neither charged nor counted again. A
// coordinator sends such a retry if the response to the first attempt was lost.
func TestAppliedWriteIsChargedOnce(t *testing.T) {
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	for _, retried := range []bool{false, true} {
		m := put("k", 1)
		m.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 1}
		m.Retried, m.Known = retried, h.DedupeEpoch()
		if err := write(t.Context(), r, m); err != nil {
			t.Fatal(err)
		}
		if c := r.Load().Counts(); c.Writes != 1 || c.Units.Float() != 5 {
			t.Errorf("retried %v: %d writes are counted, and %v RU charged", retried, c.Writes, c.Units.Float())
		}
	}
}

// instant is a sequencer that completes proposals immediately, on another goroutine, to measure the code around it.
type instant struct {
	sequencer
	waiters chan raftgroup.Waiter
}

func (s *instant) propose(_ uint64, _ []byte, w raftgroup.Waiter) error {
	s.waiters <- w
	return nil
}

func (s *instant) run() {
	for w := range s.waiters {
		w.Done(raftgroup.Outcome{Index: 11, Term: 5})
	}
}

// TestWriteAllocations checks that a blind write allocates nothing in this package.
func TestWriteAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	h := open(t, newStore(t), 1, Options{})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	s := &instant{sequencer: r.seq, waiters: make(chan raftgroup.Waiter, 1)}
	defer close(s.waiters)
	go s.run()
	r.seq = s
	m, ctx := put("k", 1), t.Context()
	done := make(result, 1)
	if n := testing.AllocsPerRun(1000, func() {
		if err := r.Write(ctx, m, done); err != nil {
			t.Fatal(err)
		}
		<-done
	}); n > 0 {
		t.Fatalf("a write allocates %v times", n)
	}
}

// BenchmarkWrite measures the CPU time of a blind write on a disk in memory.
func BenchmarkWrite(b *testing.B) {
	for _, mode := range []Durability{Periodic, Synced} {
		b.Run(fmt.Sprint("mode=", mode), func(b *testing.B) {
			h := open(b, newStore(b), 1, Options{Durability: mode, GroupMax: 1 << 30})
			defer closeHost(b, h)
			r := h.Replicas()[0]
			m := put("k", 1)
			s := &slots{free: make(chan struct{}, 256)}
			b.ReportAllocs()
			for b.Loop() {
				s.free <- struct{}{}
				if err := r.Write(b.Context(), m, s); err != nil {
					b.Fatal(err)
				}
			}
			for range cap(s.free) {
				s.free <- struct{}{}
			}
		})
	}
}

// BenchmarkCounter measures the CPU time of a counter update on a disk in memory, including its queue.
func BenchmarkCounter(b *testing.B) {
	h := open(b, newStore(b), 1, Options{})
	defer closeHost(b, h)
	r := h.Replicas()[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decide(b.Context(), r, add("k", 1)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTruncateTable truncates a table during concurrent writes. The test checks that no earlier rows remain and no
// later rows are lost. The test also checks that dropping one partition removes its span, and that dropping all
// partitions removes all data.
func TestTruncateTable(t *testing.T) {
	s := newStore(t)
	h := open(t, s, 16, Options{Durability: Synced})
	defer closeHost(t, h)
	m := testMap(t, 16)
	at := func(key string) *Replica {
		c := put(key, 0)
		return h.Replica(m.Locate(testTable, c.Token, c.Key).ID)
	}
	for i := range 50 {
		if err := write(t.Context(), at(fmt.Sprint(i)), put(fmt.Sprint(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	truncated := make(result, 1)
	wg.Go(func() {
		for _, r := range h.Replicas() {
			if err := r.Truncate(t.Context(), r.Extent(), Truncation{}, truncated); err != nil {
				t.Error(err)
				return
			}
			if err := <-truncated; err != nil {
				t.Error(err)
			}
		}
		for i := range 50 {
			if err := write(t.Context(), at(fmt.Sprint(i)), put(fmt.Sprint(i), 3)); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 50 {
		if err := write(t.Context(), at(fmt.Sprint("x", i)), put(fmt.Sprint("x", i), 2)); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for i := range 50 {
		if v, _ := read(t, at(fmt.Sprint(i)), fmt.Sprint(i)); v != 3 {
			t.Errorf("key %d has %d", i, v)
		}
	}
	var ids []topology.PartitionID
	for _, r := range h.Replicas() {
		ids = append(ids, r.ID())
	}
	rows := func() (n int) {
		all := &command.Read{Table: testTable}
		if err := s.Read(t.Context(), all, counting{&n}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := rows()
	if err := h.Drop(at("7").ID()); err != nil {
		t.Fatal(err)
	}
	if after := rows(); after >= before || after == 0 {
		t.Errorf("one of 16 partitions was dropped, of %d rows %d are left", before, after)
	}
	if err := h.Drop(ids...); err != nil {
		t.Fatal(err)
	}
	if n := rows(); h.Len() != 0 || n != 0 || len(s.metas()) != 0 {
		t.Errorf("%d replicas, %d rows and %d metas are left", h.Len(), n, len(s.metas()))
	}
}

// counting is a visitor that counts rows.
type counting struct{ n *int }

func (c counting) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (c counting) Row([]byte, *row.Row) (command.Step, error) {
	*c.n++
	return command.More, nil
}
