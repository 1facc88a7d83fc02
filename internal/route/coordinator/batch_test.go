// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// spread returns mutations of n keys in n different partitions. The fleet must have 16 partitions.
func spread(c *Coordinator, n int) []command.Mutation {
	var ms []command.Mutation
	seen := map[uint64]bool{}
	for k := 0; len(ms) < n; k++ {
		m := put(fmt.Sprint("k", k), "c", int64(k))
		if p := c.Topology().Locate(m.Table, m.Token, m.Key); !seen[uint64(p.ID)] {
			seen[uint64(p.ID)] = true
			ms = append(ms, m)
		}
	}
	return ms
}

// written returns the number of rows in the test's table and the number of remaining batch records.
func (f *fleet) written() (n, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found row.Row
	for _, s := range f.rows {
		switch exists, _ := found.Resolve(s.value, row.NotDeleted, 1, nil); {
		case s.table == table:
			n++
		case exists:
			left++
		}
	}
	return n, left
}

// TestBatchOfOnePartition checks that a batch of one physical partition is a single log entry and that all attempts use
// the same ID.
func TestBatchOfOnePartition(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		f.script = func(a *asked) *verdict {
			if a.n == 0 {
				return &verdict{err: partition.ErrUncertain, async: true, applied: true}
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, put("a", "c", 1),
			put("b", "c", 2)); err != nil {
			t.Fatal(err)
		}
		if n, left := f.written(); n != 2 || left != 0 || len(f.ids) != 1 {
			t.Errorf("%d rows, %d records, %d ids", n, left, len(f.ids))
		}
		if log := f.take(); len(log) < 2 || log[0] != "write all 1 at 2" ||
			!strings.HasSuffix(log[len(log)-1], " again") {
			t.Errorf("%q", log)
		}
	})
}

// TestBatchOverPartitions checks that a batch of several partitions is recorded before any of its parts is applied.
// Every part must have a separate ID. The record must be removed after all parts have been applied.
func TestBatchOverPartitions(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		lost := map[uint64]bool{}
		f.script = func(a *asked) *verdict {
			if a.what == "decide" && !lost[a.m.Dedupe.Sequence] {
				lost[a.m.Dedupe.Sequence] = true
				return &verdict{err: partition.ErrUncertain, async: true, applied: true}
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, spread(c, 3)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // virtual time, during which the record is removed
		if n, left := f.written(); n != 3 || left != 0 || c.Stats().Batches != 1 {
			t.Errorf("%d rows, %d records", n, left)
		}
		ids := map[uint64]bool{}
		f.change(func() {
			for id := range f.ids {
				ids[id.Sequence] = true
			}
			if len(f.ids) != 3 || len(ids) != 3 {
				t.Errorf("the ids of the parts are %v", f.ids)
			}
		})
		for _, line := range f.take() {
			if strings.HasPrefix(line, "write 17 ") {
				break
			}
			if strings.HasPrefix(line, "write") || strings.HasPrefix(line, "decide") {
				t.Errorf("before the record: %s", line)
			}
		}
	})
}

// TestCloseRemovesRecords checks that a closing coordinator removes the records of all successful batches, even if a
// removal requires several attempts. If no replica accepts a removal, Close must not wait long.
func TestCloseRemovesRecords(t *testing.T) {
	for _, dead := range []bool{false, true} {
		inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
			tries := 0
			f.script = func(a *asked) *verdict {
				if a.m == nil || a.m.Table != batchTable {
					return nil
				}
				if tries++; tries == 2 || tries > 2 && dead {
					return &verdict{err: &partition.NotLeader{}, async: true}
				}
				return nil
			}
			if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, spread(c, 3)...); err != nil {
				t.Fatal(err)
			}
			began := time.Now() // virtual time
			c.Close()
			if _, left := f.written(); left > 0 && !dead {
				t.Errorf("%d records are left", left)
			}
			if took := time.Since(began); took > time.Second || dead && tries < 3 {
				t.Errorf("it took %s, %d attempts", took, tries)
			}
		})
	}
}

// TestTruncateFinishesBatches checks that a successful batch whose record could not be removed does not reappear after
// a TRUNCATE.
func TestTruncateFinishesBatches(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		writes := 0
		f.script = func(a *asked) *verdict {
			if a.m == nil || a.m.Table != batchTable {
				return nil
			}
			if writes++; writes > 1 {
				return &verdict{err: &partition.NotLeader{}, async: true}
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, spread(c, 3)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // virtual time, during which the coordinator abandons the removal
		f.change(func() { f.script = nil })
		if n, left := f.written(); n != 3 || left != 1 {
			t.Fatalf("%d rows, %d records: the test proves nothing", n, left)
		}
		if err := c.Truncate(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // virtual time
		p := c.Topology().Partitions(batchTable)[0]
		f.change(func() { f.here[p.ID], f.leader[p.ID] = true, node(1) })
		if _, err := c.ReplayBatches(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if n, left := f.written(); n != 0 || left != 0 {
			t.Errorf("%d rows exist again, %d records remain", n, left)
		}
	})
}

// TestBatchOutlivesTwoElections checks that a batch succeeds despite one leader election before the batch is recorded
// and one leader election afterward. The total duration of both elections exceeds the timeout of one write.
func TestBatchOutlivesTwoElections(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		began := time.Now() // virtual time
		f.script = func(a *asked) *verdict {
			if a.what != "write" && a.what != "decide" {
				return nil
			}
			leads := 3 * time.Second
			if a.m.Table == batchTable {
				leads = 1500 * time.Millisecond
			}
			if time.Since(began) < leads {
				return &verdict{err: &partition.NotLeader{}, async: true}
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, spread(c, 3)...); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("it took %s, so the test checks nothing", took)
		}
	})
}

// TestBatchIsAtomic checks (O3) by stopping a coordinator at every possible write. The last write may or may not
// arrive. The batch must eventually be applied completely or not at all. An acknowledged batch must be visible
// immediately.
func TestBatchIsAtomic(t *testing.T) {
	for dies := 0; ; dies++ {
		done := false
		for _, arrives := range []bool{false, true} {
			inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
				f.script = func(a *asked) *verdict {
					switch {
					case a.n == dies && arrives:
						return &verdict{applied: true, hang: true}
					case a.n >= dies:
						// the process has ended and has no further effect
						return &verdict{hang: true, err: transport.ErrUnreachable}
					}
					return nil
				}
				err := writeNow(c, WriteOptions{Level: dberr.Quorum, Atomic: true, Type: "BATCH"}, spread(c, 3)...)
				if n, _ := f.written(); err == nil && n != 3 {
					t.Errorf("dies at %d: acknowledged with %d of 3 rows", dies, n)
				}
				f.change(func() { done = done || err == nil && dies > len(f.log) })
				var late *dberr.WriteTimeout
				if err != nil && (!errors.As(err, &late) || late.WriteType != "BATCH" &&
					late.WriteType != "BATCH_LOG") {
					t.Errorf("dies at %d: %v", dies, err)
				}
				time.Sleep(time.Minute)
				f.change(func() {
					f.script = nil
					for id := range f.leader {
						f.here[id], f.leader[id] = true, node(1)
					}
				})
				before, recorded := f.written()
				for range 2 { // a second call has no effect
					if _, err := c.ReplayBatches(context.Background(), 10*time.Second); err != nil {
						t.Fatal(err)
					}
				}
				n, left := f.written()
				if n != 0 && n != 3 || left != 0 {
					t.Errorf(
						"dies at %d, arrives %v: %d rows of 3 and %d records, before the replay %d and %d",
						dies,
						arrives,
						n,
						left,
						before,
						recorded,
					)
				}
				if late != nil && late.WriteType == "BATCH" && n != 3 {
					t.Errorf("dies at %d, arrives %v: reported as recorded, but not found", dies, arrives)
				}
			})
		}
		if done {
			if dies < 8 {
				t.Errorf("a batch has only %d steps", dies)
			}
			return
		}
	}
}

// TestReplayKeepsOrder checks that a replay skips recent batches and batches in partitions that another node leads. A
// replay must not change data that was written after the batch.
func TestReplayKeepsOrder(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		ms := spread(c, 2)
		keep := put("k0", "c", 99)
		f.script = func(a *asked) *verdict {
			if a.what == "write" && a.m.Table == batchTable && a.n > 4 {
				return &verdict{err: partition.ErrStopped, async: true} // the removal fails
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, ms...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.change(func() { f.script = nil })
		keep.Key, keep.Token = ms[0].Key, ms[0].Token
		// The timestamps of later writes exceed the timestamp of the batch.
		if err := writeNow(c, WriteOptions{}, keep); err != nil {
			t.Fatal(err)
		}
		if n, err := c.ReplayBatches(t.Context(), 0); n != 0 || err != nil {
			t.Errorf("replayed %d of another leader: %v", n, err)
		}
		p := c.Topology().Partitions(batchTable)[0]
		f.change(func() { f.here[p.ID], f.leader[p.ID] = true, node(1) })
		if n, err := c.ReplayBatches(t.Context(), time.Minute); n != 0 || err != nil {
			t.Errorf("replayed %d recent batches: %v", n, err)
		}
		if n, err := c.ReplayBatches(t.Context(), 0); n != 1 || err != nil {
			t.Errorf("replayed %d: %v", n, err)
		}
		if lines, err := readNow(t.Context(), c, dberr.Quorum, string(keep.Key)); err != nil ||
			lines[1] != "row c = 99" {
			t.Errorf("a later write was overwritten: %q, %v", lines, err)
		}
		if _, left := f.written(); left != 0 {
			t.Errorf("%d records left", left)
		}
	})
}

// TestBatchOfAnOldRevision checks a recorded batch with a part that was planned for an old table revision. The part
// must be planned again when this node has the new revision, even if other parts have already been applied.
func TestBatchOfAnOldRevision(t *testing.T) {
	for _, some := range []bool{false, true} {
		inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
			ms := spread(c, 3)
			for i := range ms {
				ms[i].SchemaVersion = 5
			}
			f.revision = 5
			refused := 0
			f.script = func(a *asked) *verdict {
				if a.what == "decide" && a.m.SchemaVersion == 5 && (!some || bytes.Equal(a.m.Key, ms[1].Key)) {
					if refused++; refused == 7 {
						f.revision = 6
					}
					return &verdict{err: partition.ErrStaleSchema, async: true}
				}
				return nil
			}
			err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, ms...)
			time.Sleep(time.Second)
			if n, left := f.written(); err != nil || n != 3 || left != 0 {
				t.Errorf("some %v: %v, %d rows, %d records", some, err, n, left)
			}
		})
	}
}

// TestBatchWithUpdates checks that no part of a batch is applied if one of its updates cannot be evaluated. Otherwise,
// the updates must be applied together with their parts.
func TestBatchWithUpdates(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		ms := spread(c, 2)
		list := &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{{Kind: cqltype.Bigint}}}
		update := func(kind command.UpdateKind, args ...[]byte) *command.Conditional {
			return &command.Conditional{
				Mutation: command.Mutation{Table: table, Token: ms[1].Token, Key: ms[1].Key},
				Rows:     []command.RowRef{{Clustering: []byte("l")}},
				Updates: []command.Update{{Kind: kind, Column: 7, Type: list, Args: args, Timestamp: row.Unstamped,
					Expiry: row.NoExpiry}},
			}
		}
		o := WriteOptions{
			Atomic:  true,
			Type:    "BATCH",
			Updates: []*command.Conditional{update(command.ListSetAt, []byte{0, 0, 0, 3}, []byte("v"))},
		}
		var invalid *dberr.Invalid
		if err := writeNow(c, o, ms[0]); !errors.As(err, &invalid) {
			t.Errorf("a missing index: %v", err)
		}
		if n, left := f.written(); n != 0 || left != 0 {
			t.Errorf("it left %d rows and %d records", n, left)
		}
		o.Updates = []*command.Conditional{update(command.ListPut, []byte("path"), []byte("v"))}
		if err := writeNow(c, o, ms[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n, left := f.written(); n != 2 || left != 0 {
			t.Errorf("%d rows and %d records", n, left)
		}
	})
}

// TestBatchOfLoggedParts checks that the coordinator does not read rows for a part whose changes are only logged. Such
// a read would cover the whole logical partition.
func TestBatchOfLoggedParts(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		ms := spread(c, 2)
		o := WriteOptions{Atomic: true, Type: "BATCH", Updates: []*command.Conditional{
			{Mutation: ms[1], Log: &command.ChangeLog{Keep: 60}}}}
		if err := writeNow(c, o, ms[0]); err != nil {
			t.Fatal(err)
		}
		for _, line := range f.take() {
			if strings.HasPrefix(line, "read") {
				t.Errorf("the node requests %s", line)
			}
		}
		if n, _ := f.written(); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestReplayOfAnAbandonedBatch checks the completion of a batch that its coordinator has abandoned. Values that clients
// have written in the meantime must remain. All other cells must have the values of the batch.
func TestReplayOfAnAbandonedBatch(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		f.next = time.Now().UnixMicro()
		f.script = func(a *asked) *verdict {
			if a.what == "decide" {
				return &verdict{err: &partition.NotLeader{}, async: true}
			}
			return nil
		}
		ms := spread(c, 2)
		later := ms[0]
		var late *dberr.WriteTimeout
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, ms...); !errors.As(err, &late) {
			t.Fatal(err)
		}
		f.change(func() { f.script, f.next = nil, time.Now().UnixMicro() })
		later.Ops = put("", "c", 99).Ops
		if err := writeNow(c, WriteOptions{}, later); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // virtual time
		p := c.Topology().Partitions(batchTable)[0]
		f.change(func() { f.here[p.ID], f.leader[p.ID] = true, node(1) })
		if n, err := c.ReplayBatches(t.Context(), 10*time.Second); n != 1 || err != nil {
			t.Errorf("replayed %d: %v", n, err)
		}
		for i, want := range []string{"row c = 99", "row c = " + strings.TrimPrefix(string(ms[1].Key), "k")} {
			lines, err := readNow(t.Context(), c, dberr.Quorum, string(ms[i].Key))
			if err != nil || lines[1] != want {
				t.Errorf("part %d: %q, %v, want %s", i, lines, err, want)
			}
		}
	})
}

// TestBatchHasTheAgreedTime checks that the record of a batch contains the cluster's time, independent of the node's
// own clock. If the timestamp is too low, other nodes replay the batch while it is in progress. If the timestamp is too
// high, other nodes replay the batch too late.
func TestBatchHasTheAgreedTime(t *testing.T) {
	for _, agreed := range []time.Duration{-3 * time.Minute, 3 * time.Minute} {
		// The error of the node's own clock has the opposite sign.
		now := fakeclock.Func(func() time.Time { return time.Now().Add(agreed) })
		inFleetWith(t, 16, Options{Clock: now}, func(t *testing.T, f *fleet, c *Coordinator) {
			f.script = func(a *asked) *verdict {
				if a.what == "decide" {
					return &verdict{hang: true}
				}
				return nil
			}
			began := now().UnixMicro()
			_ = writeNow(c, WriteOptions{Atomic: true, Type: "BATCH"}, spread(c, 2)...)
			for _, s := range f.rows {
				if ahead := time.Duration(s.stamp-began) * time.Microsecond; ahead < 0 || ahead > time.Minute {
					t.Errorf("the record is ahead of the agreed time by %v", ahead)
				}
			}
			f.change(func() {
				f.script = nil
				for id := range f.leader {
					f.here[id], f.leader[id] = true, node(1)
				}
			})
			if n, err := c.ReplayBatches(t.Context(), 10*time.Second); n != 0 || err != nil {
				t.Errorf("replayed %d recent batches: %v", n, err)
			}
			time.Sleep(10 * time.Second) // virtual time
			if n, err := c.ReplayBatches(t.Context(), 10*time.Second); n != 1 || err != nil {
				t.Errorf("replayed %d that were left: %v", n, err)
			}
		})
	}
}

// TestReplayOfABatchUnderWay checks the replay of a batch that its own coordinator may still acknowledge. The replaying
// node must not use the timestamp of the batch for the parts, even if the clock skew has the maximum value.
func TestReplayOfABatchUnderWay(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		began := time.Now() // virtual time
		f.next = began.UnixMicro()
		f.script = func(a *asked) *verdict {
			slow := 3500 * time.Millisecond
			if a.m != nil && a.m.Table == batchTable {
				slow = 1900 * time.Millisecond
			}
			if (a.what == "decide" || a.what == "write") && time.Since(began) < slow {
				return &verdict{err: &partition.NotLeader{}, async: true}
			}
			return nil
		}
		ms := spread(c, 2)
		done := make(result, 1)
		c.Write(t.Context(), ms, WriteOptions{Atomic: true, Type: "BATCH"}, done)
		time.Sleep(3400 * time.Millisecond)
		other := f.join(t, c.Topology(),
			Options{Clock: fakeclock.Func(func() time.Time { return time.Now().Add(2 * time.Second) })})
		defer other.Close()
		later := ms[0]
		later.Ops = put("", "c", 99).Ops
		f.change(func() { f.script, f.next = nil, time.Now().UnixMicro() })
		if err := writeNow(other, WriteOptions{}, later); err != nil {
			t.Fatal(err)
		}
		if err := other.finishBatches(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			lines, err := readNow(t.Context(), c, dberr.Quorum, string(ms[i].Key))
			if err != nil || lines[1] != "row c = "+strings.TrimPrefix(string(ms[i].Key), "k") {
				t.Errorf("part %d is hidden by a write that came before its acknowledgement: %q, %v", i, lines, err)
			}
		}
	})
}

// TestUpdateThatIsGone checks a batch that updates a list element. The element is removed after the batch has been
// recorded. The update must be skipped, and the rest of the batch must be applied.
func TestUpdateThatIsGone(t *testing.T) {
	inFleet(t, 16, func(t *testing.T, f *fleet, c *Coordinator) {
		ms := spread(c, 2)
		list := &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{{Kind: cqltype.Bigint}}}
		update := func(kind command.UpdateKind, statement int, args ...[]byte) command.Update {
			return command.Update{
				Kind:      kind,
				Column:    7,
				Type:      list,
				Args:      args,
				Statement: statement,
				Timestamp: row.Unstamped,
				Expiry:    row.NoExpiry,
			}
		}
		u := &command.Conditional{
			Mutation: command.Mutation{Table: table, Token: ms[1].Token, Key: ms[1].Key},
			Rows:     []command.RowRef{{Clustering: []byte("l")}},
			Updates: []command.Update{
				update(command.ListSetAt, 0, []byte{0, 0, 0, 0}, []byte("v")),
				update(command.ListPut, 1, []byte("path"), []byte("v")),
			},
		}
		// The list contains an element when the batch is prepared. The fake leader finds no element when the batch is
		// applied.
		var b row.Builder
		b.Reset(1)
		b.Cell(7, []byte("old"), []byte("x"), 0, row.NoExpiry)
		f.rows["list"] = stored{
			stamp:     1,
			value:     b.Append(nil),
			partition: c.Topology().Locate(table, ms[1].Token, ms[1].Key).ID,
			table:     table,
			key:       ms[1].Key,
			row:       "l",
		}
		f.script = func(a *asked) *verdict {
			if a.what == "decide" {
				delete(f.rows, "list")
			}
			return nil
		}
		if err := writeNow(c, WriteOptions{Atomic: true, Type: "BATCH", Updates: []*command.Conditional{u}},
			ms[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n, left := f.written(); n != 2 || left != 0 {
			t.Errorf("%d rows and %d records", n, left)
		}
	})
}

// TestRecordEncoding checks that decoding an encoded batch record returns the original record and that decoding rejects
// invalid bytes.
func TestRecordEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &batchlogEntry{id: [16]byte{1}, stamp: rapid.Int64().Draw(t, "stamp")}
		for i := range rapid.IntRange(0, 4).Draw(t, "n") {
			u := add(fmt.Sprint("k", i), rapid.StringN(0, 5, 5).Draw(t, "c"), int64(i))
			u.Mutation.Ops = put("k", "c", 1).Ops
			r.parts = append(r.parts, u)
		}
		encoded := r.append(nil)
		back, err := decodeBatchlogEntry(r.id, encoded)
		if err != nil || back.stamp != r.stamp || back.id != r.id || !bytes.Equal(back.append(nil), encoded) {
			t.Fatalf("%+v %v", back, err)
		}
		cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")
		if _, err := decodeBatchlogEntry(r.id, encoded[:cut]); err == nil {
			t.Fatalf("%d of %d bytes are accepted as a record", cut, len(encoded))
		}
	})
}
