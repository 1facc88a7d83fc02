// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// TestProgress checks that a meta has the progress of the last batch that wrote progress of its partition. The progress
// may be in the memtable, on disk after a flush or a compaction, or in the log of a crashed store. A meta that contains
// more progress must take precedence. A partition that left the node and returned must not inherit old progress.
func TestProgress(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := Open(fs, "rows", Options{})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(f func(b *Batch)) {
		t.Helper()
		b := s.NewBatch()
		defer b.Close()
		f(b)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	born := func(partition uint64) func(b *Batch) {
		m := keys.NewMeta(partition, keys.Span{Table: 600, Begin: []byte{byte(partition)},
			End: []byte{byte(partition + 1)}})
		return func(b *Batch) { b.PutMeta(&m) }
	}
	advance := func(applied uint64, partitions ...uint64) {
		t.Helper()
		var record []byte
		for _, p := range partitions {
			record = keys.AppendProgress(record, &keys.Progress{Partition: p, Applied: applied, Term: 6,
				MaxTimestamp: int64(applied) * 10, SchemaVersion: applied * 2})
		}
		commit(func(b *Batch) { b.PutProgress(record) })
	}
	check := func(want ...uint64) {
		t.Helper()
		var got []uint64
		err := s.Metas(func(m keys.Meta) error {
			got = append(got, m.Applied)
			one, ok, err := s.Meta(m.Partition)
			if err != nil || !ok || one.Applied != m.Applied || one.SchemaVersion != m.SchemaVersion {
				t.Errorf("%+v, among all %+v: %v", one, m, err)
			}
			if at := m.Applied; at > keys.InitialApplied && (m.MaxTimestamp != int64(at)*10 ||
				m.SchemaVersion != at*2) {
				t.Errorf("%+v", m)
			}
			at, _, err := s.HashPartition(m.Partition)
			if at != m.Applied {
				t.Errorf("a snapshot is at %d, the meta at %d", at, m.Applied)
			}
			return err
		})
		if err != nil || len(got) != len(want) {
			t.Fatal(got, want, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("applied %v, want %v", got, want)
				return
			}
		}
	}
	commit(born(1))
	commit(born(2))
	commit(born(3))
	check(10, 10, 10)
	advance(11, 1, 3)
	advance(12, 1)
	check(12, 10, 11)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	advance(13, 3, 2)
	check(12, 13, 13)
	further := keys.NewMeta(2, keys.Span{Table: 600, Begin: []byte{2}, End: []byte{3}})
	further.Applied, further.MaxTimestamp, further.SchemaVersion = 14, 140, 28
	commit(func(b *Batch) { b.PutMeta(&further) })
	check(12, 14, 13)
	commit(func(b *Batch) { b.DeleteMeta(1) })
	check(14, 13)
	commit(born(1))
	check(10, 14, 13)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	advance(15, 1, 2, 3) // this progress is lost in the crash
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(left, "rows", Options{}); err != nil {
		t.Fatal(err)
	}
	check(10, 14, 13)
	advance(15, 3)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(10, 14, 15)
	if p, err := readProgress(s.db); err != nil || p[2].Applied != 13 || p[3].Applied != 15 {
		t.Errorf("%v %v", p, err)
	}
	commit(func(b *Batch) { b.PutProgress([]byte{1, 7}) })
	if err := errors.Join(s.Metas(func(keys.Meta) error { return nil })); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a truncated record: %v", err)
	}
	_ = s.Close()
}
