// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testStore is a store with hooks, on a disk in memory that can crash.
type testStore struct {
	*storage.Store
	t  testing.TB
	fs *vfs.MemFS
	// syncs is the number of requested syncs.
	syncs atomic.Int64
	// syncing, if set, is called at the start of Sync.
	syncing func() error
	// reading, if set, is called at the start of Read and Pin.
	reading func()
	// admitting, if set, is called at the start of Admit.
	admitting func(m *command.Mutation)
}

// Admit implements Store.
func (s *testStore) Admit(m *command.Mutation, crowded bool) error {
	if s.admitting != nil {
		s.admitting(m)
	}
	return s.Store.Admit(m, crowded)
}

// newStore opens a store on an empty disk, and closes it at the end of the test.
func newStore(t testing.TB) *testStore {
	t.Helper()
	return openDisk(t, vfs.NewCrashableMem())
}

func openDisk(t testing.TB, fs *vfs.MemFS) *testStore {
	t.Helper()
	s, err := storage.Open(fs, "rows", storage.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testStore{Store: s, t: t, fs: fs}
}

// crash returns a store that contains only the synced data.
func (s *testStore) crash() *testStore {
	s.t.Helper()
	return openDisk(s.t, s.fs.CrashClone(vfs.CrashCloneCfg{}))
}

func (s *testStore) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	if s.reading != nil {
		s.reading()
	}
	return s.Store.Read(ctx, c, v)
}

func (s *testStore) Pin(table uint32, tok token.Token, key []byte) *storage.Pinned {
	if s.reading != nil {
		s.reading()
	}
	return s.Store.Pin(table, tok, key)
}

func (s *testStore) Sync() error {
	s.syncs.Add(1)
	if s.syncing != nil {
		if err := s.syncing(); err != nil {
			return err
		}
	}
	return s.Store.Sync()
}

func (s *testStore) metas() (out []keys.Meta) {
	s.t.Helper()
	err := s.Metas(func(m keys.Meta) error {
		out = append(out, m)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// recorder records the proposals to a replica, in order.
type recorder struct {
	sequencer
	mu sync.Mutex
	ms []command.Mutation
}

// record makes a replica record its mutations.
func record(r *Replica) *recorder {
	rec := &recorder{sequencer: r.seq}
	r.seq = rec
	return rec
}

func (r *recorder) propose(term uint64, entry []byte, w raftgroup.Waiter) error {
	var e command.Entry
	if err := command.DecodeEntry(&e, bytes.Clone(entry)); err != nil {
		return err
	}
	r.mu.Lock()
	r.ms = append(r.ms, e.Mutations...)
	r.mu.Unlock()
	return r.sequencer.propose(term, entry, w)
}

const testTable = keys.FirstTable

var bigint = &cqltype.Type{Kind: cqltype.Bigint}

func wire(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// testMap returns the topology of a table with n partitions.
func testMap(t testing.TB, n int) *topology.Snapshot {
	t.Helper()
	s, err := topology.New().AddTable(testTable, n, []topology.Place{{Region: "here", Nodes: []topology.NodeID{{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testClock is a clock that a test controls.
type testClock func() time.Time

func (c testClock) Wall() time.Time { return c() }

// open opens a host with the table's partitions.
func open(t testing.TB, s Store, n int, o Options) *Host {
	t.Helper()
	h, err := Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(testMap(t, n).Partitions(testTable)...); err != nil {
		t.Fatal(err)
	}
	return h
}

func closeHost(t testing.TB, h *Host) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// put returns an unstamped write of column 1.
func put(key string, v int64) *command.Mutation {
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(1, nil, wire(v), 0, row.NoExpiry)
	k := []byte(key)
	return &command.Mutation{Table: testTable, Token: token.Hash(k), Key: k,
		Ops: []command.Op{{Operand: b.Append(nil)}}}
}

// read returns column 1 and its timestamp, or 0 for both if the row does not exist.
func read(t testing.TB, r *Replica, key string) (v, ts int64) {
	t.Helper()
	k := []byte(key)
	f := rowCollector{refs: []command.RowRef{{}}, found: make([]*row.Row, 1)}
	c := f.read(&command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k},
		Rows: f.refs})
	if err := r.Read(t.Context(), c, &f); err != nil {
		t.Fatal(err)
	}
	if f.found[0] == nil {
		return 0, 0
	}
	cell := f.found[0].Cell(1)
	return int64(binary.BigEndian.Uint64(cell.Value)), cell.Timestamp
}

// result is a completion that a test can wait for.
type result chan error

func (r result) Done(o command.Outcome) { r <- o.Err }

// write sends a write and waits for its outcome.
func write(ctx context.Context, r *Replica, m *command.Mutation) error {
	done := make(result, 1)
	if err := r.Write(ctx, m, done); err != nil {
		return err
	}
	return <-done
}

// decide sends a conditional write and waits for its outcome.
func decide(ctx context.Context, r *Replica, c *command.Conditional) (*command.CASResult, error) {
	done := make(command.OutcomeChannel, 1)
	if err := r.ConditionalWrite(ctx, c, done); err != nil {
		return nil, err
	}
	o := <-done
	return o.CAS, o.Err
}

// add increments column 1 as a counter.
func add(key string, delta int64) *command.Conditional {
	k := []byte(key)
	return &command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k},
		Rows: []command.RowRef{{}},
		Updates: []command.Update{{Kind: command.CounterAdd, Column: 1, Type: bigint, Args: [][]byte{wire(delta)},
			Timestamp: row.Unstamped}}}
}

// swap returns a conditional write that sets column 1 to next if its value is prev, where nil means null.
func swap(key string, prev []byte, next int64) *command.Conditional {
	return &command.Conditional{Mutation: *put(key, next), Rows: []command.RowRef{{}},
		Conditions: []command.Condition{{Operator: command.Equal, Column: 1, Type: bigint, Values: [][]byte{prev}}}}
}

// stampAll sets the timestamp of a mutation and its unstamped operands.
func stampAll(m *command.Mutation, stamp int64) {
	m.Timestamp = stamp
	for i := range m.Ops {
		if m.Ops[i].Kind != command.OpIndex {
			row.Stamp(m.Ops[i].Operand, stamp)
		}
	}
}
