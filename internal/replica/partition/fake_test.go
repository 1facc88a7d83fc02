// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a Store in memory that can crash: durable is what the last successful Sync kept.
type fakeStore struct {
	mu      sync.Mutex
	data    map[string][]byte // rows, headers, dedupe records, metas; by the keys of the real store
	durable map[string][]byte
	applied []*command.Mutation // copies, in the order of application
	syncs   int
	// truncated are the spans given to Truncate.
	truncated []keys.Span
	// syncing, if set, is called by Sync before it does anything.
	syncing func() error
	// reading, if set, is called by Read before it does anything.
	reading func()
}

func newFake() *fakeStore { return &fakeStore{data: map[string][]byte{}, durable: map[string][]byte{}} }

// crash returns a store with what survived.
func (s *fakeStore) crash() *fakeStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fakeStore{data: maps.Clone(s.durable), durable: maps.Clone(s.durable)}
}

func (s *fakeStore) Apply(b *Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range b.Mutations {
		c := *m
		c.Key = bytes.Clone(m.Key)
		c.Ops = slices.Clone(m.Ops)
		for j, op := range m.Ops {
			if row.Timestamp(op.Operand) == row.Unstamped {
				return errors.New("an operand without a timestamp was applied")
			}
			c.Ops[j].Operand = bytes.Clone(op.Operand)
			key := keys.AppendRow(nil, m.Table, m.Token, m.Key, op.Clustering)
			if op.Kind == command.OpHeader {
				key = keys.AppendDeletions(nil, m.Table, m.Token, m.Key)
			}
			merged := c.Ops[j].Operand
			if old, ok := s.data[string(key)]; ok {
				var err error
				if merged, err = row.Merge(nil, old, merged); err != nil {
					return err
				}
			}
			s.data[string(key)] = merged
		}
		if i == 0 && b.Result != nil {
			s.data[string(keys.AppendDedupe(nil, m.Table, m.Token, m.Key, m.Dedupe))] = bytes.Clone(b.Result)
		}
		s.applied = append(s.applied, &c)
	}
	for i := range b.Metas {
		s.data[string(metaKey(b.Metas[i].Partition))] = b.Metas[i].Append(nil)
	}
	return nil
}

func metaKey(id uint64) []byte { return keys.AppendMeta(nil, keys.PartitionID, id) }

// Read knows reads of one logical partition, with slices and statics.
func (s *fakeStore) Read(_ context.Context, c *command.Read, v command.Visitor) error {
	if s.reading != nil {
		s.reading()
	}
	s.mu.Lock()
	data := maps.Clone(s.data)
	s.mu.Unlock()
	var h row.Header
	h.Clear()
	if b, ok := data[string(keys.AppendDeletions(nil, c.Table, c.Token, c.Key))]; ok {
		if err := h.Resolve(b, c.Now, c.Dropped); err != nil {
			return err
		}
	}
	type found struct {
		clustering []byte
		r          row.Row
	}
	var rows []found
	prefix := append(keys.AppendPartition(nil, c.Table, c.Token, c.Key), keys.Row)
	for k, b := range data {
		rest, ok := bytes.CutPrefix([]byte(k), prefix)
		if !ok || !inSlices(c.Slices, rest) {
			continue
		}
		f := found{clustering: rest}
		if exists, err := f.r.Resolve(b, h.Covering(rest), c.Now, c.Dropped); err != nil {
			return err
		} else if exists {
			rows = append(rows, f)
		}
	}
	sort.Slice(rows, func(i, j int) bool { return bytes.Compare(rows[i].clustering, rows[j].clustering) < 0 })
	var static *row.Row
	if c.Statics && h.Static.Exists() {
		static = &h.Static
	}
	if static == nil && len(rows) == 0 {
		return nil
	}
	if step, err := v.Partition(c.Token, c.Key, static); err != nil || step != command.More {
		return err
	}
	for i := range rows {
		if step, err := v.Row(rows[i].clustering, &rows[i].r); err != nil || step != command.More {
			return err
		}
	}
	return nil
}

func inSlices(in []command.Slice, k []byte) bool {
	for _, s := range in {
		if bytes.Compare(k, s.Start) >= 0 && (s.End == nil || bytes.Compare(k, s.End) < 0) {
			return true
		}
	}
	return len(in) == 0
}

func (s *fakeStore) Result(m *command.Mutation) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data[string(keys.AppendDedupe(nil, m.Table, m.Token, m.Key, m.Dedupe))], nil
}

func (s *fakeStore) Sweep(*command.Sweep) error { return nil }

func (s *fakeStore) Truncate(span keys.Span, _ []uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.truncated = append(s.truncated, span)
	lower, upper := span.Bounds()
	maps.DeleteFunc(s.data, func(k string, _ []byte) bool { return k >= string(lower) && (upper == nil || k < string(upper)) })
	return nil
}

func (s *fakeStore) Metas() ([]keys.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []keys.Meta
	for k, b := range s.data {
		if keys.ID([]byte(k)) == keys.PartitionID {
			m, err := keys.DecodeMeta(b)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		}
	}
	return out, nil
}

func (s *fakeStore) Forget(ids ...topology.PartitionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.data, string(metaKey(uint64(id))))
	}
	return nil
}

func (s *fakeStore) Sync() error {
	s.mu.Lock()
	kept := maps.Clone(s.data)
	s.syncs++
	s.mu.Unlock()
	if s.syncing != nil {
		if err := s.syncing(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.durable = kept
	s.mu.Unlock()
	return nil
}

const testTable = keys.FirstTable

var bigint = &cqltype.Type{Kind: cqltype.Bigint}

func wire(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// testMap is a table cut into n partitions.
func testMap(t testing.TB, n int) *topology.Snapshot {
	t.Helper()
	s, err := topology.New().AddTable(testTable, n, []topology.Place{{Region: "here", Nodes: []topology.NodeID{{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

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

// put is an unstamped write of column 1.
func put(key string, v int64) *command.Mutation {
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(1, nil, wire(v), 0, row.NoExpiry)
	k := []byte(key)
	return &command.Mutation{Table: testTable, Token: token.Hash(k), Key: k, Ops: []command.Op{{Operand: b.Append(nil)}}}
}

// read returns column 1 and its timestamp, 0 if there is none.
func read(t testing.TB, r *Replica, key string) (v, ts int64) {
	t.Helper()
	k := []byte(key)
	f := finder{refs: []command.RowRef{{}}, found: make([]*row.Row, 1)}
	c := f.read(&command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k}, Rows: f.refs})
	if err := r.Read(t.Context(), c, &f); err != nil {
		t.Fatal(err)
	}
	if f.found[0] == nil {
		return 0, 0
	}
	cell := f.found[0].Cell(1)
	return int64(binary.BigEndian.Uint64(cell.Value)), cell.Timestamp
}

// result is a completion to wait for.
type result chan error

func (r result) Done(err error) { r <- err }

type outcome struct {
	d   *command.Decision
	err error
}

type outcomes chan outcome

func (o outcomes) Decided(d *command.Decision, err error) { o <- outcome{d, err} }

// write writes and waits.
func write(ctx context.Context, r *Replica, m *command.Mutation) error {
	done := make(result, 1)
	if err := r.Write(ctx, m, done); err != nil {
		return err
	}
	return <-done
}

// decide decides and waits.
func decide(ctx context.Context, r *Replica, c *command.Conditional) (*command.Decision, error) {
	done := make(outcomes, 1)
	if err := r.Decide(ctx, c, done); err != nil {
		return nil, err
	}
	o := <-done
	return o.d, o.err
}

// add increments column 1 as a counter.
func add(key string, delta int64) *command.Conditional {
	k := []byte(key)
	return &command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k}, Rows: []command.RowRef{{}},
		Updates: []command.Update{{Kind: command.CounterAdd, Column: 1, Type: bigint, Args: [][]byte{wire(delta)}, Timestamp: row.Unstamped}}}
}

// swap writes next to column 1 if it is prev (nil = null).
func swap(key string, prev []byte, next int64) *command.Conditional {
	return &command.Conditional{Mutation: *put(key, next), Rows: []command.RowRef{{}},
		Conditions: []command.Condition{{Operator: command.Equal, Column: 1, Type: bigint, Values: [][]byte{prev}}}}
}
