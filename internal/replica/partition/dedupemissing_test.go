// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// batchRecords implements Batches for tests.
type batchRecords struct {
	recorded bool
	err      error
	asked    int
}

func (b *batchRecords) Recorded(context.Context, [16]byte) (bool, error) {
	b.asked++
	return b.recorded, b.err
}

// sweepDedupe removes a dedupe record through the log.
func sweepDedupe(t *testing.T, r *Replica, m *command.Mutation) {
	t.Helper()
	key := keys.AppendDedupe(nil, m.Table, m.Token, m.Key, m.Dedupe)
	done := make(result, 1)
	sweep := &command.Sweep{Table: m.Table, Keys: [][]byte{key}, Horizon: 1 << 40}
	if err := r.Control().Sweep(sweep, done); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestLateConditional checks that a conditional write that arrives after its dedupe record may have been swept is
// rejected. The check applies to every attempt, because a suspended sender does not know the age of the write.
func TestLateConditional(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := open(t, newStore(t), 1, Options{Durability: Synced, Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	attempt := func() (*command.CASResult, error) {
		c := add("k", 5)
		c.Issued = 1_000_000
		c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 1 << 50}
		return decide(t.Context(), r, c)
	}
	for range 2 { // the second response comes from the dedupe record
		if d, err := attempt(); err != nil || !d.Applied {
			t.Fatal(d, err)
		}
	}
	now = now.Add(command.DedupeReach + time.Second)
	if d, err := attempt(); err != nil || !d.Applied {
		t.Error("the record still exists:", d, err)
	}
	c := add("k", 5)
	c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 1 << 50}
	sweepDedupe(t, r, &c.Mutation)
	if d, err := attempt(); !errors.Is(err, ErrUncertain) {
		t.Error("a late attempt:", d, err)
	}
	if v, _ := read(t, r, "k"); v != 5 {
		t.Errorf("one increment by 5 was acknowledged, and the counter is %d", v)
	}
	c.Issued = now.Unix()
	c.Mutation.Dedupe.Sequence++
	if d, err := decide(t.Context(), r, c); err != nil || !d.Applied {
		t.Error("a new command:", d, err)
	}
}

// TestLateBatch checks the property of TestLateConditional for a batch with updates in one physical partition.
func TestLateBatch(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := open(t, newStore(t), 1, Options{Durability: Synced, Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	c := add("k", 5)
	c.Issued = 1_000_000
	c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: 1 << 50}
	now = now.Add(command.DedupeReach + time.Second)
	err := h.Replicas()[0].WriteAll(t.Context(), []Part{{Mutation: &c.Mutation, Updates: c}}, make(result, 1))
	if !errors.Is(err, ErrUncertain) {
		t.Error(err)
	}
}

// TestOldPart checks an atomic batch's part that is older than the minimum lifetime of dedupe records. The part must be
// evaluated only if the batch is still recorded. The dedupe records of a recorded batch are kept, so a part without a
// dedupe record has not been applied.
func TestOldPart(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := open(t, newStore(t), 1, Options{Durability: Synced, Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	part := func() (*command.CASResult, error) {
		c := add("k", 5)
		c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{9}, Sequence: 1}
		c.Mutation.Timestamp = 1_000_000 * 1e6
		return decide(t.Context(), r, c)
	}
	now = now.Add(time.Hour)
	if _, err := part(); !errors.Is(err, ErrUncertain) {
		t.Error("the state of the batches is unknown:", err)
	}
	b := &batchRecords{err: errors.New("unavailable")}
	h.SetBatches(b)
	if _, err := part(); !errors.Is(err, ErrUncertain) {
		t.Error("the table of batches is down:", err)
	}
	*b = batchRecords{recorded: true}
	for range 2 {
		if d, err := part(); err != nil || !d.Applied {
			t.Fatal(d, err)
		}
	}
	if v, _ := read(t, r, "k"); v != 5 || b.asked != 1 {
		t.Errorf("the counter is %d, %d queries", v, b.asked)
	}
	c := add("k", 5)
	c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{9}, Sequence: 1}
	sweepDedupe(t, r, &c.Mutation)
	b.recorded = false
	if d, err := part(); err != nil || !d.Applied {
		t.Fatal(d, err)
	}
	if v, _ := read(t, r, "k"); v != 5 {
		t.Errorf("a part of a finished batch was applied again: the counter is %d", v)
	}
}

// TestRepeatedListUpdate checks the retry of a batch that cannot be evaluated on the rows that it has written. The
// response must come from the batch's dedupe record.
func TestRepeatedListUpdate(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Durability: Synced})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	list := &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{bigint}}
	write := func(sequence uint64, u command.Update) error {
		c := add("k", 0)
		c.Mutation.Dedupe = command.DedupeID{Coordinator: [16]byte{1}, Sequence: sequence}
		u.Column, u.Type, u.Timestamp = 2, list, c.Updates[0].Timestamp
		c.Updates = []command.Update{u}
		done := make(result, 1)
		if err := r.WriteAll(t.Context(), []Part{{Mutation: &c.Mutation, Updates: c}}, done); err != nil {
			return err
		}
		return <-done
	}
	put := command.Update{Kind: command.ListPut, Args: [][]byte{[]byte("path"), []byte("v")}}
	if err := write(1<<50, put); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := write(1<<50+1, command.Update{Kind: command.ListDeleteAt, Args: [][]byte{{0, 0, 0, 0}}}); err != nil {
			t.Error(err)
		}
	}
}

// TestLateTruncate checks that an attempt of a truncation has no effect if it arrives after another attempt has been
// applied.
func TestLateTruncate(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Durability: Synced})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	truncate := func() error {
		done := make(result, 1)
		id := &command.Mutation{Dedupe: command.DedupeID{Coordinator: [16]byte{1}, Sequence: 1 << 50}}
		if err := r.Truncate(t.Context(), r.Extent(), Truncation{Attempt: id}, done); err != nil {
			return err
		}
		return <-done
	}
	r.level.Store(7)
	if err := write(t.Context(), r, put("k", 1)); err != nil {
		t.Fatal(err)
	}
	if err := truncate(); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, r, "k"); v != 0 {
		t.Fatal(v)
	}
	if err := write(t.Context(), r, put("k", 2)); err != nil {
		t.Fatal(err)
	}
	if err := truncate(); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, r, "k"); v != 2 {
		t.Errorf("a late truncation removed a newer row: %d", v)
	}
}
