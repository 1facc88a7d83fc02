// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// errOrder means that an entry does not follow the last applied entry. Applying such an entry would make replicas
// differ.
var errOrder = errors.New("entry out of order")

// machine applies the entries of all replicas of a node to the store. It implements raftgroup.StateMachine. Only the
// applier of the sequencers uses it.
//
// The changes of an entry and the applied index of its partition are in one batch of the store. The result of an entry
// depends only on the entry, the partition's meta, and its rows. A leader that rejects a command because of its clock,
// its disk, or its schema does so before the proposal. If the log rejects a command, every replica computes the same
// error as the result.
//
// Sweeps and truncations read the store. The open batch is therefore committed before a sweep or a truncation, with the
// index of the previous entry. After a crash, the entry is applied again, which is safe because merging an operand is
// idempotent. Only commands of the meta partition are not idempotent, and the meta partition has no sweeps.
type machine struct {
	host  *Host
	batch *storage.Batch
	// touched holds the replicas with entries in the open batch.
	touched []*Replica
	// unsynced records the changed keys. It is nil if readers may see data that a crash can undo.
	unsynced *unsynced
	entry    command.Entry
	// commands is the number of commands of the current entry up to the current command.
	commands uint64
	key      [8]byte
	// record is the progress record of the next commit.
	record     []byte
	invariants invariants
}

// progress is the part of a partition's meta that entries can change, except the members. version is the version of the
// meta partition's records.
type progress struct {
	applied, term   uint64
	stamp           int64
	schema, version uint64
	level           feature.Level
	// swept is the highest horizon of a sweep of rows or deletions.
	swept int64
}

// appliedState is the applied state of a replica. The applier and an installation never use it concurrently.
type appliedState struct {
	progress
	// meta is the last stored meta. progress contains newer values of some fields. changed reports whether other fields
	// have changed since meta was stored.
	meta             keys.Meta
	changed, touched bool
	// ids holds the dedupe IDs of plain writes in the open batch.
	ids []command.DedupeID
	// notifiedVersion is the last version of the records of which the owner has been notified. changes holds the
	// changes in the open batch.
	notifiedVersion uint64
	changes         []recordsChange
}

func newMachine(h *Host) *machine { return &machine{host: h, batch: h.store.NewBatch()} }

// begin checks that an entry directly follows the last entry of its group.
func (a *machine) begin(group, index uint64) (*Replica, error) {
	r := a.host.Replica(topology.PartitionID(group))
	if r == nil {
		if r = a.host.retiredReplica(topology.PartitionID(group)); r != nil {
			return r, nil
		}
		return nil, fmt.Errorf("this node has no replica of partition %d", group)
	}
	if index != r.ahead.applied+1 {
		return nil, fmt.Errorf("partition %d: entry %d after %d: %w", group, index, r.ahead.applied, errOrder)
	}
	return r, nil
}

// touch makes the next commit store the replica's progress.
func (a *machine) touch(r *Replica) {
	if !r.ahead.touched {
		r.ahead.touched = true
		a.touched = append(a.touched, r)
	}
}

// Apply implements raftgroup.StateMachine.
func (a *machine) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	r, err := a.begin(group, index)
	if err != nil {
		return results, err
	}
	if r.dead.Load() {
		for range commands {
			results = append(results, r.wrongRange())
		}
		return results, nil
	}
	next := r.ahead.progress
	done := uint64(0)
	run := a.host.opts.ChangeBuffer.Run()
	if begun := r.ahead.meta.Begun; begun.Index == index {
		done = begun.Commands
		run = 0 // the change buffer cannot contain the whole entry
	}
	if r.isMeta() {
		run = 0
	}
	for i, c := range commands {
		if a.commands = uint64(i) + 1; a.commands <= done {
			results = append(results, nil) // no proposer waits for an entry that has already been applied
			continue
		}
		if err := command.DecodeEntry(&a.entry, c); err != nil {
			return results, err
		}
		result, err := a.command(r, &next, index)
		if err != nil {
			return results, err
		}
		results = append(results, result)
		if run != 0 {
			a.bufferChange(run, r, index, c, result)
		}
	}
	if run != 0 {
		a.host.opts.ChangeBuffer.EndEntry(run, uint64(r.id), index)
	}
	next.applied, next.term = index, term
	r.ahead.progress = next
	a.touch(r)
	return results, nil
}

// bufferChange adds command c to the change buffer unless the log has rejected c or c changes no rows. a.entry must be
// the decoded form of c.
func (a *machine) bufferChange(run uint64, r *Replica, index uint64, c []byte, result any) {
	_, refused := result.(error)
	if !refused && a.entry.Kind.Replay() != command.ReplayNothing {
		a.host.opts.ChangeBuffer.Add(run, uint64(r.id), index, c)
	}
}

// command applies a.entry. result is an error if the log rejects it. err stops the node.
func (a *machine) command(r *Replica, next *progress, index uint64) (result any, err error) {
	e := &a.entry
	switch e.Kind {
	case command.EntryWrite:
		return a.write(r, next)
	case command.EntrySweep:
		if !holdsAll(r, &e.Sweep) {
			return r.wrongRange(), nil
		}
		if err := a.Commit(); err != nil {
			return nil, err
		}
		next.swept = max(next.swept, sweptBelow(&e.Sweep))
		return nil, a.batch.Sweep(&e.Sweep)
	case command.EntryTruncate:
		if r.isMeta() || a.outdated(r) {
			return r.wrongRange(), nil
		}
		if err := a.Commit(); err != nil {
			return nil, err
		}
		if a.unsynced != nil {
			r.wholeBatch.Store(a.unsynced.number)
		}
		if e.ID != (command.DedupeID{}) {
			r.ahead.ids = append(r.ahead.ids, e.ID)
		}
		return nil, a.batch.Truncate(r.ahead.meta.Span, e.Indexes)
	case command.EntryRequire:
		if a.outdated(r) {
			return r.wrongRange(), nil
		}
		next.schema = max(next.schema, e.SchemaVersion)
		return nil, nil
	case command.EntryRecords:
		return a.records(r, next)
	case command.EntryFreeze:
		return a.freeze(r, next, index)
	case command.EntryUnfreeze:
		return a.unfreeze(r, next, index)
	case command.EntryMerge:
		return a.merge(r, next, index)
	case command.EntryFeature:
		if r.ahead.meta.Frozen != 0 {
			return r.wrongRange(), nil
		}
		// The directory's level must be raised first, so that a build that does not support the level cannot open the
		// directory.
		if err := a.host.store.Raise(e.Level); err != nil {
			return nil, fmt.Errorf("partition %d: %w", r.id, err)
		}
		next.level = max(next.level, e.Level)
		return nil, nil
	case command.EntrySplit:
		return a.split(r, next, index)
	}
	return nil, fmt.Errorf("entry of kind %d: %w", e.Kind, command.ErrMalformed)
}

// outdated reports whether a.entry was proposed for another span of the partition, or whether the partition is frozen.
// It is not used for entries that contain keys, because their keys are checked instead.
func (a *machine) outdated(r *Replica) bool {
	return a.entry.Epoch != r.ahead.meta.Epoch || r.ahead.meta.Frozen != 0
}

// write applies the mutations of a.entry atomically.
func (a *machine) write(r *Replica, next *progress) (result any, err error) {
	ms := a.entry.Mutations
	state := r.state.Load()
	for i := range ms {
		c := &ms[i]
		if c.Table != state.keys.Table || !state.serves(c.Position()) || r.isMeta() {
			return r.wrongRange(), nil
		}
		if c.SchemaVersion != 0 && c.SchemaVersion < next.schema {
			return ErrStaleSchema, nil
		}
	}
	for i := range ms {
		c := &ms[i]
		if invariant.Enabled {
			a.invariants.checkWrite(r, c)
			invariant.Check(c.Timestamp > next.stamp || i > 0, "P12: partition %d applies stamp %d after %d", r.id,
				c.Timestamp, next.stamp)
		}
		if err := a.batch.Mutate(c); err != nil {
			return nil, err
		}
		next.stamp = max(next.stamp, c.Timestamp)
		if u := a.unsynced; u != nil {
			u.slot(c.Table, c.Token).Store(u.number)
		}
		if i > 0 || c.Dedupe == (command.DedupeID{}) {
			continue
		}
		if a.entry.Result != nil {
			a.batch.PutDedupe(c.Table, c.Token, c.Key, c.Dedupe, a.entry.Result)
		} else {
			r.ahead.ids = append(r.ahead.ids, c.Dedupe)
			a.touch(r)
		}
	}
	return nil, nil
}

// Members implements raftgroup.StateMachine.
func (a *machine) Members(group, index, term uint64, members *pb.ConfState, where []byte) error {
	r, err := a.begin(group, index)
	if err != nil || r.dead.Load() {
		return err
	}
	places, _, err := raftgroup.DecodeMembers(where)
	if err != nil {
		return err
	}
	if run := a.host.opts.ChangeBuffer.Run(); run != 0 && !r.isMeta() {
		a.host.opts.ChangeBuffer.EndEntry(run, uint64(r.id), index)
	}
	r.ahead.applied, r.ahead.term = index, term
	setMembers(&r.ahead.meta, members, places)
	r.ahead.changed = true
	a.touch(r)
	return nil
}

// Commit implements raftgroup.StateMachine. It updates the dedupe window only after readers can see the applied writes.
func (a *machine) Commit() error {
	if a.batch.Empty() && len(a.touched) == 0 {
		return nil
	}
	a.record = a.record[:0]
	for _, r := range a.touched {
		a.store(&r.ahead)
	}
	if len(a.record) > 0 {
		a.batch.PutProgress(a.record)
	}
	err := a.batch.CommitLogged()
	a.batch.Close()
	a.batch = a.host.store.NewBatch()
	if err != nil {
		return err
	}
	now := a.host.clock.Now() // used only for the dedupe window, because the state must not depend on the clock
	for i, r := range a.touched {
		if invariant.Enabled {
			a.checkCommitted(r)
		}
		r.show(now)
		a.touched[i] = nil
	}
	a.touched = a.touched[:0]
	return nil
}

// Sync implements raftgroup.StateMachine.
func (a *machine) Sync() error { return a.host.store.Sync() }

func (a *machine) close() { a.batch.Close() }

// store adds the progress of a partition to the batch. If other fields of the meta have changed, store also adds the
// meta.
func (a *machine) store(p *appliedState) {
	m := &p.meta
	m.Applied, m.Term, m.MaxTimestamp, m.SchemaVersion = p.applied, p.term, p.stamp, p.schema
	if p.changed || m.Feature != p.level || m.Swept != p.swept {
		m.Feature, m.Swept, p.changed = p.level, p.swept, false
		a.batch.PutMeta(m)
		return
	}
	a.record = keys.AppendProgress(a.record, &keys.Progress{
		Partition: m.Partition, Applied: m.Applied, Term: m.Term, MaxTimestamp: m.MaxTimestamp,
		SchemaVersion: m.SchemaVersion,
	})
}

// load sets the state from a stored meta.
func (p *appliedState) load(m *keys.Meta, version uint64) {
	p.meta, p.changed, p.changes = *m, false, nil
	p.progress = progress{
		applied: m.Applied, term: m.Term, stamp: m.MaxTimestamp, schema: m.SchemaVersion, version: version,
		level: m.Feature, swept: m.Swept,
	}
}

// show publishes the committed state to the rest of the replica.
func (r *Replica) show(now raftgroup.Instant) {
	p := &r.ahead
	p.touched = false
	r.horizon.Store(p.stamp)
	r.visible.Store(p.progress.applied)
	r.stamps.observe(p.stamp)
	r.schema.raise(p.schema)
	r.level.Store(uint32(p.level))
	if len(p.ids) > 0 {
		r.dedupe.remember(p.ids, now)
		p.ids = p.ids[:0]
	}
	if p.version != p.notifiedVersion {
		r.showRecords()
	}
}

// sweptBelow returns the horizon of a sweep. It returns 0 if the sweep removes only dedupe IDs and change log entries,
// because readers do not need them.
func sweptBelow(s *command.Sweep) int64 {
	for _, key := range s.Keys {
		if p, ok := keys.Parse(key); ok && p.Kind < keys.Dedupe {
			return s.Horizon
		}
	}
	return 0
}
