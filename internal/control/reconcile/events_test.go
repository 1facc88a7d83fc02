// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// divided is a replica that either splits or rejects the split immediately.
type divided struct {
	id    topology.PartitionID
	span  topology.Span
	epoch uint64
	// before, if not nil, is called once before an entry is applied.
	before func()
}

func dividedOf(p *topology.Partition) *divided {
	return &divided{id: p.ID, span: p.Span, epoch: p.Epoch}
}

func (d *divided) ID() topology.PartitionID      { return d.id }
func (d *divided) Span() (topology.Span, uint64) { return d.span, d.epoch }

func (d *divided) Split(_ context.Context, epoch uint64, s *command.Split) error {
	return d.apply(epoch, func() { d.span.Limit = topology.Position{Ring: binary.BigEndian.Uint64(s.At)} })
}

func (d *divided) Unfreeze(_ context.Context, epoch uint64) error { return d.apply(epoch, func() {}) }

// apply applies an entry unless the epoch has changed before the entry is applied.
func (d *divided) apply(epoch uint64, f func()) error {
	if before := d.before; before != nil {
		d.before = nil
		before()
	}
	if epoch != d.epoch {
		return errors.New("refused")
	}
	f()
	d.epoch++
	return nil
}

// onDisk is the size of every partition in bytes.
type onDisk uint64

func (n onDisk) DiskBytes(keys.Span) (uint64, error) { return uint64(n), nil }

// TestHistoryOfChanges checks that the history contains each added or removed replica and each split exactly once.
// Each event has the reason for which the change was started, and an added replica is paired with the replica that it
// replaces.
func TestHistoryOfChanges(t *testing.T) {
	place := topology.Place{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}
	first, err := topology.New().AddTable(ordered, 1, []topology.Place{place})
	if err != nil {
		t.Fatal(err)
	}
	k := keeperOf(t, first)
	m := MembershipReconciler{Keeper: k, Store: onDisk(1 << 20)}
	change := func(why placement.Reason, steps ...placement.Step) *topology.Partition {
		t.Helper()
		a := placement.Action{Partition: 1, Region: "r", Reason: why, Steps: steps}
		next, err := a.Apply(k.State().Topology, m.Sched.Wall())
		if err != nil {
			t.Fatal(err)
		}
		want(t, k, next)
		return next.Partition(1)
	}
	publish := func(p *topology.Partition, voters ...topology.ReplicaID) {
		t.Helper()
		for range 2 { // a repeated publication is recorded only once
			if err := m.publish(t.Context(), p, "r", voters); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(change(placement.Replace, placement.Step{Kind: placement.Add, Node: topology.NodeID{4}},
		placement.Step{Kind: placement.Remove, Replica: 1}), 2, 3, 4)
	publish(change(placement.Grow, placement.Step{Kind: placement.Add, Node: topology.NodeID{1}}), 2, 3, 4, 5)
	publish(change(placement.Leave, placement.Step{Kind: placement.Remove, Replica: 2}), 3, 4, 5)
	cut, err := k.State().Topology.BeginSplit(1, topology.Position{Ring: 9}, topology.BySize, m.Sched.Wall())
	if err != nil {
		t.Fatal(err)
	}
	want(t, k, cut)
	s := SplitReconciler{Keeper: k, Store: m.Store, Log: slog.New(slog.DiscardHandler)}
	p := cut.Partition(1)
	for range 2 {
		if err := s.Run(t.Context(), dividedOf(p), p); err != nil {
			t.Fatal(err)
		}
	}
	if r := k.State().Topology.Partition(1).Reason; r != nil {
		t.Errorf("members are at rest, and are changed for %s", r.Cause)
	}
	moved := func(number uint64, c topology.Cause, from, to topology.NodeID, bytes uint64) *meta.Event {
		return &meta.Event{Number: number, Kind: meta.Move, Table: ordered, Partition: 1, From: from, To: to,
			Bytes:  bytes,
			Reason: topology.Reason{Cause: c}}
	}
	if diff := cmp.Diff([]*meta.Event{
		moved(1, topology.ToHeal, topology.NodeID{1}, topology.NodeID{4}, 1<<20),
		moved(2, topology.ToGrow, topology.NodeID{}, topology.NodeID{1}, 1<<20),
		moved(3, topology.ToLeave, topology.NodeID{2}, topology.NodeID{}, 0),
		{Number: 4, Kind: meta.Split, Table: ordered, Partition: 1, Other: 2, Bytes: 1 << 20,
			Reason: topology.Reason{Cause: topology.BySize}},
	}, k.State().History, cmpopts.IgnoreFields(meta.Event{}, "Ended", "Reason.Began", "Pause")); diff != "" {
		t.Error(diff)
	}
	for _, e := range k.State().History {
		if e.Began == 0 || e.Ended < e.Began {
			t.Errorf("event %d from %d to %d", e.Number, e.Began, e.Ended)
		}
		if (e.Kind == meta.Split) != (e.Pause > 0) {
			t.Errorf("event %d, a %s, has a pause of %v", e.Number, e.Kind, e.Pause)
		}
	}
}
