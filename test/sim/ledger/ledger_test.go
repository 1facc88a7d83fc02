// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
)

func open(t *testing.T, group uint64, m Meta) *Store {
	t.Helper()
	s, err := Open("rows", vfs.NewMem(), 1<<20)
	if err == nil {
		err = s.Create(group, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLedgerKeepsTheRules checks the properties of the ledger on which tests of raftgroup rely. Sums must include the
// open batch. An entry out of order and a snapshot with the wrong index must be rejected. An installed state must
// equal the original state.
func TestLedgerKeepsTheRules(t *testing.T) {
	from := open(t, 7, Meta{Replica: 1, Applied: 10, Term: 5, Conf: &pb.ConfState{Voters: []uint64{1, 2}}})
	results, err := from.Apply(7, 11, 6, [][]byte{Add("n", 2), Add("n", 3), Set("k", []byte("value"))}, nil)
	if err == nil {
		results, err = from.Apply(7, 12, 6, [][]byte{Add("n", 1)}, results)
	}
	if err == nil {
		err = from.Commit()
	}
	if err != nil || len(results) != 4 || results[0] != uint64(2) || results[1] != uint64(5) ||
		results[3] != uint64(6) {
		t.Fatalf("%v, %v", results, err)
	}
	for _, index := range []uint64{12, 14} {
		if _, err := from.Apply(7, index, 6, nil, nil); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("entry %d behind 12: %v", index, err)
		}
	}
	to := open(t, 7, Meta{Replica: 2, Conf: &pb.ConfState{}})
	install := func(index uint64) error {
		meta, data, err := from.Snapshot(7)
		if err != nil {
			t.Fatal(err)
		}
		meta.Index = &index
		return to.Install(7, meta, data)
	}
	if err := install(11); !errors.Is(err, ErrOutOfOrder) {
		t.Errorf("a snapshot with another index: %v", err)
	}
	if err := install(12); err != nil {
		t.Fatal(err)
	}
	want, err := from.Hash(7)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := to.Hash(7); err != nil || got != want {
		t.Errorf("hash %x, %v; want %x", got, err, want)
	}
	if m, ok, err := to.Meta(7); err != nil || !ok || m.Applied != 12 || m.Replica != 2 ||
		len(m.Conf.GetVoters()) != 2 {
		t.Errorf("%+v, %v, %v", m, ok, err)
	}
}
