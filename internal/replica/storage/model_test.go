// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

const testTable, testIndex = keys.FirstTable, keys.FirstTable + 1

// modelPartition is a logical partition of the model. modelPartition holds merged operands by clustering key, and
// index entries.
type modelPartition struct {
	tok     token.Token
	pk      string
	header  []byte
	rows    map[string][]byte
	entries map[string]bool // value/clustering
}

// model is the store as a map. The model uses package row for merging. Package row has a separate model.
type model struct{ partitions map[string]*modelPartition }

func (m *model) apply(t *rapid.T, mu *command.Mutation) {
	p := m.partitions[string(mu.Key)]
	if p == nil {
		p = &modelPartition{tok: mu.Token, pk: string(mu.Key), rows: map[string][]byte{}, entries: map[string]bool{}}
		m.partitions[string(mu.Key)] = p
	}
	merge := func(old, op []byte) []byte {
		if old == nil {
			return op
		}
		out, err := row.Merge(nil, old, op)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, op := range mu.Ops {
		switch op.Kind {
		case command.OpRow:
			p.rows[string(op.Clustering)] = merge(p.rows[string(op.Clustering)], op.Operand)
		case command.OpHeader:
			p.header = merge(p.header, op.Operand)
		case command.OpIndex:
			p.entries[string(op.Value)+"/"+string(op.Clustering)] = true
		}
	}
}

// read returns the result of a Read by examining all data.
func (m *model) read(t *rapid.T, r *command.Read, v command.Visitor) {
	var list []*modelPartition
	for _, p := range m.partitions {
		if r.Key != nil && string(r.Key) != p.pk || r.Key == nil && !r.Range.Contains(p.tok) {
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *modelPartition) int {
		return cmp.Or(cmp.Compare(a.tok, b.tok), cmp.Compare(len(a.pk), len(b.pk)), cmp.Compare(a.pk, b.pk))
	})
	for _, p := range list {
		if !m.readPartition(t, p, r, v) {
			return
		}
	}
}

func (m *model) readPartition(t *rapid.T, p *modelPartition, r *command.Read, v command.Visitor) (more bool) {
	var h row.Header
	h.Clear()
	if p.header != nil {
		if err := h.Resolve(p.header, r.Now, r.Dropped); err != nil {
			t.Fatal(err)
		}
	}
	var static *row.Row
	if r.Statics && h.Static.Exists() {
		static = &h.Static
	}
	whole := r.Index == nil || p.entries[string(r.Index.Value)+"/"]
	announced := false
	if h.Static.Exists() && whole && (r.Statics || r.NoRows) {
		announced = true
		if step, _ := v.Partition(p.tok, []byte(p.pk), static); step != command.More {
			return step == command.NextPartition
		}
	}
	var cks []string
	for ck := range p.rows {
		in := len(r.Slices) == 0
		for _, s := range r.Slices {
			in = in || string(s.Start) <= ck && (s.End == nil || ck < string(s.End))
		}
		if in && (whole || p.entries[string(r.Index.Value)+"/"+ck]) {
			cks = append(cks, ck)
		}
	}
	slices.Sort(cks)
	if r.Reversed {
		slices.Reverse(cks)
	}
	for _, ck := range cks {
		var got row.Row
		exists, err := got.Resolve(p.rows[ck], h.Covering([]byte(ck)), r.Now, r.Dropped)
		if err != nil {
			t.Fatal(err)
		}
		if !exists {
			continue
		}
		if !announced {
			announced = true
			if step, _ := v.Partition(p.tok, []byte(p.pk), static); step != command.More {
				return step == command.NextPartition
			}
		}
		if r.NoRows {
			return true
		}
		if step, _ := v.Row([]byte(ck), &got); step != command.More {
			return step == command.NextPartition
		}
	}
	return true
}

// collector records rows and stops after a given number of rows.
type collector struct {
	lines   []string
	limit   int
	rows    int
	stopped bool
	tok     token.Token
	pk, ck  []byte
	perPart int // maximum number of rows per partition; 0 means all
	inPart  int
}

func (c *collector) Partition(tok token.Token, pk []byte, static *row.Row) (command.Step, error) {
	line := fmt.Sprintf("partition %d %q", tok, pk)
	if static != nil {
		line += " static " + show(static)
	}
	c.tok, c.pk, c.ck, c.inPart = tok, bytes.Clone(pk), nil, 0
	c.lines = append(c.lines, line)
	return command.More, nil
}

func (c *collector) Row(clustering []byte, r *row.Row) (command.Step, error) {
	c.lines = append(c.lines, fmt.Sprintf("  %q %s", clustering, show(r)))
	c.ck = append([]byte{}, clustering...)
	c.rows++
	c.inPart++
	if c.limit > 0 && c.rows >= c.limit {
		c.stopped = true
		return command.Stop, nil
	}
	if c.perPart > 0 && c.inPart >= c.perPart {
		return command.NextPartition, nil
	}
	return command.More, nil
}

func show(r *row.Row) string {
	var b strings.Builder
	if r.Live {
		fmt.Fprintf(&b, "live@%d ", r.Liveness.Timestamp)
	}
	for _, c := range r.Cells {
		fmt.Fprintf(&b, "%d%q=%q@%d ", c.Column, c.Path, c.Value, c.Timestamp)
	}
	return b.String()
}

var (
	testPartitions = []string{"p", "q", "rr", "s"}
	testTokens     = map[string]token.Token{"p": -5, "q": 3, "rr": 3, "s": token.Max}
	clusterings    = []string{"aa", "ab", "ac", "ba", "bb", "ca", "cb", "cc"}
)

// drawMutation draws a few operands on one partition.
func drawMutation(t *rapid.T) command.Mutation {
	pk := rapid.SampledFrom(testPartitions).Draw(t, "pk")
	m := command.Mutation{Table: testTable, Token: testTokens[pk], Key: []byte(pk)}
	for range rapid.IntRange(1, 3).Draw(t, "ops") {
		var b row.Builder
		b.Reset(rapid.Int64Range(1, 9).Draw(t, "ts"))
		now := rapid.Int64Range(1, 9).Draw(t, "at")
		col := rapid.Uint32Range(1, 3).Draw(t, "col")
		value := []byte(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "value"))
		op := command.Op{Clustering: []byte(rapid.SampledFrom(clusterings).Draw(t, "ck"))}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); kind {
		case 0, 1, 2:
			b.Live(rapid.SampledFrom([]int32{0, 0, 3}).Draw(t, "ttl"), now)
			b.Cell(col, nil, value, 0, 0)
			m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: value,
				Clustering: op.Clustering})
		case 3:
			b.Cell(col, nil, value, 3, now)
			m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: value,
				Clustering: op.Clustering})
		case 4, 5:
			b.DeleteRow(now)
		case 6:
			b.Tombstone(col, nil, now)
		case 7:
			op.Kind, op.Clustering = command.OpHeader, nil
			b.Cell(col+10, nil, value, 0, 0)
			m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: value})
		case 8:
			op.Kind, op.Clustering = command.OpHeader, nil
			s := drawSlice(t)
			b.DeleteRange(s.Start, s.End, now)
		default:
			op.Kind, op.Clustering = command.OpHeader, nil
			b.DeleteRow(now)
		}
		op.Operand = bytes.Clone(b.Bytes())
		m.Ops = append(m.Ops, op)
	}
	return m
}

func drawSlice(t *rapid.T) command.Slice {
	bound := rapid.SampledFrom([]string{"", "a", "aa", "ab", "b", "bb", "c", "cb", "cd"})
	s := command.Slice{Start: []byte(bound.Draw(t, "start"))}
	if end := bound.Draw(t, "end"); end != "" {
		s.End = []byte(end)
	}
	return s
}

func drawRead(t *rapid.T) command.Read {
	r := command.Read{Table: testTable, Now: rapid.Int64Range(0, 10).Draw(t, "now"),
		Statics: rapid.Bool().Draw(t, "statics")}
	if rapid.Bool().Draw(t, "one") {
		pk := rapid.SampledFrom(append(testPartitions, "none")).Draw(t, "pk")
		r.Key, r.Token = []byte(pk), testTokens[pk]
	} else {
		a, b := rapid.Int64Range(-6, 6).Draw(t, "from"), rapid.Int64Range(-6, 6).Draw(t, "to")
		r.Range = token.Between(token.Token(min(a, b)), token.Token(max(a, b)))
		if rapid.Bool().Draw(t, "all") {
			r.Range = token.Full
		}
	}
	r.Reversed = rapid.Bool().Draw(t, "reversed")
	switch rapid.IntRange(0, 3).Draw(t, "mode") {
	case 0:
		r.NoRows = true
	case 1:
		r.Index = &command.IndexLookup{Index: testIndex,
			Value: []byte(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "value"))}
	}
	last := ""
	for range rapid.IntRange(0, 3).Draw(t, "slices") {
		s := drawSlice(t)
		if string(s.Start) < last || s.End != nil && bytes.Compare(s.Start, s.End) >= 0 {
			continue
		}
		r.Slices = append(r.Slices, s)
		if s.End == nil {
			break
		}
		last = string(s.End)
	}
	if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
		upto := rapid.SampledFrom([]int64{cqltype.AllDropped, 3}).Draw(t, "upto")
		r.Dropped = []cqltype.Dropped{{Column: 2, Upto: upto}}
	}
	return r
}

// eager makes the runFinder search for dead runs after very few dead rows.
func eager(s *Store) {
	s.tombstones.mu.Lock()
	s.hot.after = 2
	s.tombstones.walkMax, s.tombstones.rowsMin, s.tombstones.saveMin = 1, 1, 1
	s.tombstones.mu.Unlock()
	s.tombstones.hints.mu.Lock()
	s.tombstones.hints.every, s.tombstones.hints.dueAt = 1, 2
	s.tombstones.hints.mu.Unlock()
	s.together = 1
}

// spreadAll moves the deleted ranges of all partitions to separate keys, as a leader does.
func spreadAll(s *Store, table uint32) error {
	var sw command.Sweep
	sw.Table = table
	for _, pk := range testPartitions {
		sw.Keys = append(sw.Keys, keys.AppendDeletions(nil, table, testTokens[pk], []byte(pk)))
	}
	return s.ApplySweep(&sw)
}

// TestStoreAgainstModel makes random mutations with random timestamps, deletions, and expiries. Between mutations, the
// test flushes, compacts, spreads ranges, and reopens the store. It checks the results of every kind of Read, complete
// and in pages, and repeatedly with one Pinned.
func TestStoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		open := func() *Store {
			s, err := Open(fs, "db", Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			eager(s)
			return s
		}
		// The test covers bloom filters of rows and of partitions, and tables with and without clustering columns.
		id := rapid.SampledFrom([]uint32{testTable, testTable | keys.WholeKey}).Draw(t, "table")
		flat := rapid.IntRange(0, 3).Draw(t, "flat") == 0
		install := func(s *Store) *Store {
			if flat {
				s.InstallTable(Table{ID: id})
			}
			return s
		}
		s := install(open())
		defer func() { _ = s.Close() }()
		m := model{partitions: map[string]*modelPartition{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 24).Draw(t, "step") {
			case 0:
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = install(open())
			case 3:
				if err := spreadAll(s, id); err != nil {
					t.Fatal(err)
				}
			case 4, 5, 6, 7, 8, 9, 10, 11, 12:
				mu := drawMutation(t)
				mu.Table = id
				for i := range mu.Ops {
					if flat {
						mu.Ops[i].Clustering = nil
					}
				}
				if err := s.Apply(mu); err != nil {
					t.Fatal(err)
				}
				m.apply(t, &mu)
			case 13, 14, 15:
				checkPinned(t, s, &m, id)
			default:
				checkRead(t, s, &m, id)
			}
		}
	})
}

func checkRead(t *rapid.T, s *Store, m *model, table uint32) {
	r := drawRead(t)
	r.Table = table
	perPart := rapid.IntRange(0, 2).Draw(t, "per partition")
	want, got := collector{perPart: perPart}, collector{perPart: perPart}
	m.read(t, &r, &want)
	if err := s.Read(context.Background(), &r, &got); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(want.lines, got.lines); d != "" {
		t.Fatalf("%+v\n%s", r, d)
	}
	if r.Key != nil || r.NoRows || perPart > 0 {
		return
	}
	// The same read in pages must have the same result, except for the lines that start a partition again.
	var paged []string
	limit := rapid.IntRange(1, 3).Draw(t, "page")
	for range 200 {
		page := collector{limit: limit}
		if err := s.Read(context.Background(), &r, &page); err != nil {
			t.Fatal(err)
		}
		for i, line := range page.lines {
			if i == 0 && r.AfterKey != nil && slices.Contains(paged, line) {
				continue
			}
			paged = append(paged, line)
		}
		if !page.stopped {
			break
		}
		r.AfterKey, r.AfterToken, r.AfterClustering = page.pk, page.tok, page.ck
	}
	if d := gocmp.Diff(want.lines, paged); d != "" {
		t.Fatalf("in pages of %d: %+v\n%s", limit, r, d)
	}
}

// checkPinned reads one partition repeatedly, and looks up the newest timestamps of the cells that a mutation writes.
func checkPinned(t *rapid.T, s *Store, m *model, table uint32) {
	pk := rapid.SampledFrom(testPartitions).Draw(t, "pinned")
	pin := func() *Pinned { return s.Pin(table, testTokens[pk], []byte(pk)) }
	p := pin()
	defer func() {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	now := rapid.Int64Range(0, 10).Draw(t, "now")
	for range rapid.IntRange(1, 6).Draw(t, "reads") {
		r := drawRead(t)
		r.Table, r.Key, r.Token = table, []byte(pk), testTokens[pk]
		if rapid.IntRange(0, 3).Draw(t, "at another time") > 0 {
			r.Now, r.Dropped = now, nil
		}
		if rapid.Bool().Draw(t, "one row") {
			ck := rapid.SampledFrom(clusterings).Draw(t, "ck")
			r.Slices = []command.Slice{{Start: []byte(ck), End: []byte(ck + "\x00")}}
		}
		perPart := rapid.IntRange(0, 2).Draw(t, "per partition")
		want, got := collector{perPart: perPart}, collector{perPart: perPart}
		m.read(t, &r, &want)
		if err := p.Read(context.Background(), &r, &got); err != nil {
			t.Fatal(err)
		}
		if d := gocmp.Diff(want.lines, got.lines); d != "" {
			t.Fatalf("pinned: %+v\n%s", r, d)
		}
	}
	mu := drawMutation(t)
	mu.Table, mu.Key, mu.Token = table, []byte(pk), testTokens[pk]
	got, err := p.Newest(&mu)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := pin().Newest(&mu); err != nil || got != want {
		t.Fatalf("the newest is %d, after reading %d (%v)", want, got, err)
	}
}
