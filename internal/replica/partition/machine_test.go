// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// none is a factory that creates no sequencers.
type none struct{ sequencers }

func (none) load(metas []keys.Meta) ([]replicaInit, error) { return (*committer)(nil).load(metas) }
func (none) sequencer(*Replica, *keys.Meta) sequencer      { return nil }

// bench is a machine without Raft groups. The test applies the entries itself.
type bench struct {
	t     *testing.T
	fs    *vfs.MemFS
	store *storage.Store
	*machine
}

const lower, upper = uint64(1), uint64(2) // IDs of the two halves of the table

func newBench(t *testing.T) *bench {
	b := &bench{t: t, fs: vfs.NewCrashableMem()}
	b.open()
	batch := b.store.NewBatch()
	defer batch.Close()
	ps := append(testMap(t, 2).Partitions(testTable), &topology.Partition{ID: topology.MetaPartition,
		Table: topology.MetaTable, Epoch: 1})
	for _, p := range ps {
		m := initialMeta(p, p.SetOn(nodeID(0)), feature.Oldest)
		batch.PutMeta(&m)
	}
	if err := errors.Join(batch.Commit(), b.store.Sync()); err != nil {
		t.Fatal(err)
	}
	b.load()
	t.Cleanup(b.close)
	return b
}

func (b *bench) open() {
	b.t.Helper()
	var err error
	if b.store, err = storage.Open(b.fs, "rows",
		storage.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20}); err != nil {
		b.t.Fatal(err)
	}
	h := newHost(b.store, Options{})
	h.seqs = none{}
	b.machine = h.machine
}

// load reads the stored members.
func (b *bench) load() {
	b.t.Helper()
	var metas []keys.Meta
	err := b.store.Metas(func(m keys.Meta) error {
		metas = append(metas, m)
		return nil
	})
	if err == nil {
		_, err = b.host.load(metas)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) close() {
	b.machine.close()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

// crash discards unsynced data and opens the store again.
func (b *bench) crash() {
	left := b.fs.CrashClone(vfs.CrashCloneCfg{})
	b.close()
	b.fs = left
	b.open()
	b.load()
}

// entry applies commands as one log entry.
func (b *bench) entry(group, index uint64, commands ...*command.Entry) []any {
	b.t.Helper()
	var encoded [][]byte
	for _, c := range commands {
		encoded = append(encoded, command.AppendEntry(nil, c))
	}
	results, err := b.Apply(group, index, 6, encoded, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return results
}

func (b *bench) commit() {
	b.t.Helper()
	if err := errors.Join(b.Commit(), b.Sync()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) meta(group uint64) keys.Meta {
	b.t.Helper()
	m, ok, err := b.store.Meta(group)
	if err != nil || !ok {
		b.t.Fatal(err, ok)
	}
	return m
}

// rows counts the rows of both halves that have a value.
func (b *bench) rows(ks ...string) (n int) {
	b.t.Helper()
	for _, k := range ks {
		f := rowCollector{refs: []command.RowRef{{}}, found: nil}
		f.found = append(f.found, nil)
		if err := b.store.Read(b.t.Context(), f.read(&command.Conditional{Mutation: *put(k, 0), Rows: f.refs}),
			&f); err != nil {
			b.t.Fatal(err)
		}
		if f.found[0] != nil {
			n++
		}
	}
	return n
}

// stamped returns an entry that writes v to a key.
func stamped(key string, v, stamp int64, schema uint64) *command.Entry {
	m := put(key, v)
	m.SchemaVersion = schema
	stampAll(m, stamp)
	return &command.Entry{Kind: command.EntryWrite, Mutations: []command.Mutation{*m}}
}

// half returns n keys in the first or the second half of the table.
func half(second bool, n int) (out []string) {
	for c := 'a'; len(out) < n; c++ {
		if key := string(c); (put(key, 0).Token >= 0) == second {
			out = append(out, key)
		}
	}
	return out
}

// TestApply checks that rows and progress are written in one batch. A command for another partition or an old schema
// must be rejected with a result and have no effect. An entry that does not follow the last entry must stop the
// machine.
func TestApply(t *testing.T) {
	b := newBench(t)
	in, out := half(false, 2), half(true, 1)
	results := b.entry(lower, 11, stamped(in[0], 1, 100, 5), stamped(out[0], 1, 900, 5))
	var wrong *WrongRange
	if err, _ := results[1].(error); results[0] != nil || !errors.As(err, &wrong) {
		t.Fatalf("%v", results)
	}
	if b.rows(in[0]) != 0 || b.meta(lower).Applied != 10 {
		t.Error("seen before the commit")
	}
	results = b.entry(
		lower,
		12,
		&command.Entry{Kind: command.EntryRequire, Epoch: keys.InitialEpoch, SchemaVersion: 7},
		stamped(in[1], 1, 110, 6),
		stamped(in[0], 2, 120, 7),
	)
	if results[1] != ErrStaleSchema || results[2] != nil {
		t.Fatalf("%v", results)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	r := b.host.Replica(topology.PartitionID(lower))
	if m := b.meta(lower); m.Applied != 12 || m.Term != 6 || m.MaxTimestamp != 120 || m.SchemaVersion != 7 ||
		len(m.Voters) != 1 {
		t.Errorf("%+v", m)
	}
	if b.rows(in[0], in[1], out[0]) != 1 || r.stamps.last.Load() != 120 || r.schema.Load() != 7 {
		t.Error("the result differs from the applied write")
	}
	if _, err := b.Apply(lower, 14, 6, nil, nil); !errors.Is(err, errOrder) {
		t.Errorf("a gap: %v", err)
	}
	b.crash()
	if m := b.meta(lower); m.Applied != 10 || b.rows(in[0]) != 0 {
		t.Errorf("rows and progress are not lost together: %+v", m)
	}
}

// TestMembers checks that the meta contains the changed members and their nodes.
func TestMembers(t *testing.T) {
	b := newBench(t)
	leave := true
	conf := &pb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1}, LearnersNext: []uint64{3},
		AutoLeave: &leave}
	where := []raftgroup.Member{
		{Replica: 1, Node: raftgroup.NodeID{1}},
		{Replica: 2, Node: raftgroup.NodeID{2}},
		{Replica: 3, Node: raftgroup.NodeID{3}},
	}
	if err := b.Members(lower, 11, 6, conf, raftgroup.EncodeMembers(nil, where)); err != nil {
		t.Fatal(err)
	}
	b.commit()
	b.crash()
	m := b.meta(lower)
	c := configOf(2, &m, false)
	if c.Applied != 11 || len(c.Conf.GetVoters()) != 2 || c.Conf.GetVotersOutgoing()[0] != 1 ||
		c.Conf.GetLearnersNext()[0] != 3 || !c.Conf.GetAutoLeave() ||
		len(c.Where) != 3 ||
		c.Where[1] != where[1] {
		t.Errorf("%+v", c)
	}
}

// TestCommitInEntry checks that a truncation commits the open batch before its entry, with the progress before that
// entry. After a crash at this point, the entry must be applied again with the same result.
func TestCommitInEntry(t *testing.T) {
	b := newBench(t)
	in := half(false, 3)
	entry := []*command.Entry{stamped(in[0], 1, 100, 0), {Kind: command.EntryTruncate, Epoch: keys.InitialEpoch},
		stamped(in[1], 1, 101, 0)}
	other := half(true, 1)
	b.entry(upper, 11, stamped(other[0], 1, 100, 0))
	b.entry(lower, 11, entry...)
	if err := b.Sync(); err != nil { // all data that the entry has committed
		t.Fatal(err)
	}
	b.crash()
	if m, o := b.meta(lower), b.meta(upper); m.Applied != 10 || o.Applied != 11 || b.rows(in[0], other[0]) != 2 {
		t.Fatalf("%+v %+v", m, o)
	}
	b.entry(lower, 11, entry...)
	b.commit()
	if m := b.meta(lower); m.Applied != 11 || m.MaxTimestamp != 101 || b.rows(in[0]) != 0 || b.rows(in[1]) != 1 ||
		b.rows(other[0]) != 1 {
		t.Errorf("%+v", m)
	}
	// A sweep that contains keys of other partitions must be rejected.
	sweep := command.Sweep{Table: testTable,
		Keys: [][]byte{keys.AppendDeletions(nil, testTable, put(other[0], 0).Token, []byte(other[0]))}}
	results := b.entry(lower, 12, &command.Entry{Kind: command.EntrySweep, Sweep: sweep})
	if _, refused := results[0].(*WrongRange); !refused {
		t.Errorf("%v", results)
	}
	b.commit()
}

// TestMetaSaysWhatWasSwept checks that the meta contains the region from the partition's creation, and the highest
// horizon of a sweep of rows or deletions, also after restarts. Sweeps that contain only dedupe IDs must not count,
// because their horizons are later.
func TestMetaSaysWhatWasSwept(t *testing.T) {
	b := newBench(t)
	key := half(false, 1)[0]
	at := put(key, 0).Token
	row := keys.AppendDeletions(nil, testTable, at, []byte(key))
	id := keys.AppendDedupe(nil, testTable, at, []byte(key), command.DedupeID{Sequence: 1})
	sweep := func(index uint64, horizon int64, list ...[]byte) {
		t.Helper()
		e := &command.Entry{Kind: command.EntrySweep, Sweep: command.Sweep{Table: testTable, Keys: list,
			Horizon: horizon}}
		if results := b.entry(lower, index, e); results[0] != nil {
			t.Fatal(results)
		}
	}
	if m := b.meta(lower); m.Region != "here" || m.Swept != 0 {
		t.Errorf("at creation: region %q, swept below %d", m.Region, m.Swept)
	}
	sweep(11, 100, row)
	sweep(12, 50, row)
	sweep(13, 900, id)
	b.commit()
	if m := b.meta(lower); m.Swept != 100 {
		t.Errorf("swept below %d", m.Swept)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	b.crash()
	sweep(14, 70, row)
	sweep(15, 200, id, row)
	b.commit()
	if m := b.meta(lower); m.Swept != 200 || b.meta(upper).Swept != 0 {
		t.Errorf("swept below %d, the other half below %d", m.Swept, b.meta(upper).Swept)
	}
}

// TestRecordsInOneBatch checks that a change of records sees previous changes in the same batch. A change that expects
// another version must have no effect, and partitions other than the meta partition must have no records.
func TestRecordsInOneBatch(t *testing.T) {
	b := newBench(t)
	change := func(expect uint64, key, value string) *command.Entry {
		r := command.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		return &command.Entry{Kind: command.EntryRecords, Records: command.Records{Expect: expect,
			Put: []command.Record{r}}}
	}
	meta := uint64(topology.MetaPartition)
	first := b.entry(meta, 11, change(0, "a", "1"), change(1, "b", "2"), change(1, "c", "3"))
	second := b.entry(meta, 12, change(2, "a", ""), change(0, "d", "4"))
	var conflict *Conflict
	if err, _ := first[2].(error); first[0] != uint64(1) || first[1] != uint64(2) || !errors.As(err, &conflict) ||
		conflict.Version != 2 ||
		second[0] != uint64(3) || second[1] != uint64(4) {
		t.Errorf("%v %v", first, second)
	}
	if results := b.entry(lower, 11, change(0, "e", "5")); results[0] == uint64(1) {
		t.Error("records in a table's partition")
	}
	b.commit()
	b.crash()
	var got string
	version, err := b.host.Records(func(key, value []byte) error {
		got += string(key) + string(value)
		return nil
	})
	if err != nil || version != 4 || got != "b2d4" {
		t.Errorf("%d %s %v", version, got, err)
	}
	if r := b.entry(meta, 13, change(4, "f", "6")); r[0] != uint64(5) {
		t.Errorf("after a restart: %v", r)
	}
	b.commit()
}
