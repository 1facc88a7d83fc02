// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

const table = 1024

var places = []Place{{Region: "here", Nodes: []NodeID{{1}, {2}, {3}}}}

func genKey(t *rapid.T, label string) (token.Token, []byte) {
	key := rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, label)
	// With few tokens, several keys share a token, and boundaries are often between two keys of the same token.
	return token.Token(rapid.Int64Range(-3, 3).Draw(t, label+" token") * (1 << 61)), key
}

// TestPartitionsTileTheRing makes random splits and merges. It checks that the partitions of a table tile its ring,
// and that IDs are used only once. It also checks that the topology survives encoding, that Locate agrees with a
// search of all spans, and that a change does not modify the previous snapshot.
func TestPartitionsTileTheRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New().AddTable(table, rapid.IntRange(1, 9).Draw(t, "n"), places)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.AddTable(table+1, 2, places); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			before := s.Append(nil)
			old := s
			ps := s.Partitions(table)
			i := rapid.IntRange(0, len(ps)-1).Draw(t, "partition")
			if rapid.Bool().Draw(t, "split") {
				tok, key := genKey(t, "at")
				inside := ps[i].Span.Contains(tok, key) && At(tok, key).Compare(ps[i].Span.Begin) != 0
				next, err := split(s, ps[i].ID, At(tok, key))
				if inside != (err == nil) {
					t.Fatalf("split of %s at %s/%x: %v", ps[i].Span, tok, key, err)
				}
				if err == nil {
					s = next
				}
			} else if next, err := merged(s, ps[i].ID, ps[(i+1)%len(ps)].ID); (err == nil) != (i+1 < len(ps)) {
				t.Fatalf("merge of %d and the next of %d: %v", i, len(ps), err)
			} else if err == nil {
				s = next
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, old.Append(nil)) {
				t.Fatal("a transition changed the snapshot it began with")
			}
		}
		for range 20 {
			tok, key := genKey(t, "key")
			p := s.Locate(table, tok, key)
			holders := 0
			for i, q := range s.Partitions(table) {
				if q.Span.Contains(tok, key) {
					holders++
					if q != p || s.Find(table, At(tok, key)) != i {
						t.Fatalf("%s/%x is in partition %d, Locate says %d", tok, key, q.ID, p.ID)
					}
				}
				if q.Span.Contains(tok, key) && !q.Span.Tokens().Contains(tok) {
					t.Fatalf("span %s has the key, its tokens %s not", q.Span, q.Span.Tokens())
				}
				if q.Span.Contains(tok, key) != q.Span.Keys(table).Holds(At(tok, key)) {
					t.Fatalf("span %s and its form in the store disagree on %s/%x", q.Span, tok, key)
				}
			}
			if holders != 1 {
				t.Fatalf("%d partitions hold %s/%x", holders, tok, key)
			}
		}
		for _, q := range s.Partitions(table) {
			back, err := SpanOf(q.Span.Keys(table))
			if err != nil || back.Begin.Compare(q.Span.Begin) != 0 || back.Limit.Compare(q.Span.Limit) != 0 {
				t.Fatalf("span %s was decoded as %s: %v", q.Span, back, err)
			}
			for _, o := range s.Partitions(table) {
				if q.Span.Overlaps(o.Span) != (q == o) || q.Span.Covers(o.Span) != (q == o) {
					t.Fatalf("spans %s and %s", q.Span, o.Span)
				}
			}
		}
		decoded, err := Decode(s.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Append(nil), decoded.Append(nil)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestWideRing splits a table on the wide ring between two positions with the same first half. The topology and the
// spans must survive encoding.
func TestWideRing(t *testing.T) {
	const wide = table | keys.WideRing
	s, err := New().AddTable(wide, 2, places)
	if err != nil {
		t.Fatal(err)
	}
	at := []Position{{Ring: 7, Low: 9}, {Ring: 7, Low: 10}, {Ring: 7, Low: 10, Key: []byte("k")}, {Ring: 7, Low: 11},
		{Ring: 8}}
	for _, p := range at {
		i := s.Find(wide, p)
		if s, err = split(s, s.Partitions(wide)[i].ID, p); err != nil {
			t.Fatal(err)
		}
	}
	decoded, err := Decode(s.Append(nil))
	if err != nil || !bytes.Equal(decoded.Append(nil), s.Append(nil)) {
		t.Fatal(err)
	}
	for i, p := range at {
		q := s.Partitions(wide)[s.Find(wide, p)]
		if q.Span.Begin.Compare(p) != 0 || !q.Span.Holds(p) || i > 0 && s.Partitions(wide)[i].Span.Holds(p) {
			t.Errorf("%s is in %s", p, q.Span)
		}
		if back, err := SpanOf(q.Span.Keys(wide)); err != nil || back.String() != q.Span.String() ||
			back.Begin.Compare(q.Span.Begin) != 0 {
			t.Errorf("%s was decoded as %s: %v", q.Span, back, err)
		}
	}
}

// TestTransitions checks that a new table is divided into equal shares. A split must keep the left ID and the nodes,
// raise both epochs, and assign new replica IDs.
func TestTransitions(t *testing.T) {
	s, err := New().AddTable(table, 4, places)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range s.Partitions(table) {
		if want := uint64(i) << 62; p.Span.Begin.Ring != want || p.Epoch != 1 || p.ID != PartitionID(i+1) {
			t.Errorf("partition %d begins at %d at epoch %d, want %d at 1", p.ID, p.Span.Begin.Ring, p.Epoch, want)
		}
	}
	if _, err := s.AddTable(table, 1, places); err == nil {
		t.Error("a table was added twice")
	}
	if _, err := s.AddTable(table+1, 0, places); err == nil {
		t.Error("a table without partitions was added")
	}
	halves, err := split(s, 2, Position{Ring: 1<<62 + 5})
	if err != nil {
		t.Fatal(err)
	}
	left, right := halves.Partition(2), halves.Partition(5)
	if left.Epoch != 2 || right.Epoch != 2 || left.Span.Limit.Compare(right.Span.Begin) != 0 {
		t.Errorf("after a split: %+v, %+v", left, right)
	}
	for i, r := range right.Sets[0].Replicas {
		if r.Node != left.Sets[0].Replicas[i].Node || r.ID == left.Sets[0].Replicas[i].ID {
			t.Errorf("replica %d of the right half: %+v beside %+v", i, r, left.Sets[0].Replicas[i])
		}
	}
	if right.Set("here").Leader != right.Sets[0].Replicas[0].ID {
		t.Errorf("leader of the right half: got %d", right.Set("here").Leader)
	}
	if halves.Version() != s.Version()+2 || halves.Len() != 5 {
		t.Errorf("version %d, %d partitions", halves.Version(), halves.Len())
	}
	dropped := halves.DropTable(table)
	if dropped.Len() != 0 || dropped.Locate(table, 0, []byte("k")) != nil || dropped.Find(table, Position{}) != -1 {
		t.Error("a dropped table still exists")
	}
	again, err := dropped.AddTable(table, 1, places)
	if err != nil || again.Partitions(table)[0].ID <= 5 {
		t.Errorf("an id was used twice: %v", err)
	}
}

// TestLocateAllocations checks that lookups do not allocate.
func TestLocateAllocations(t *testing.T) {
	s, err := New().AddTable(table, 64, places)
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("key")
	tok := token.Hash(key)
	if n := testing.AllocsPerRun(100, func() {
		if s.Locate(table, tok, key) == nil {
			t.Fatal("not found")
		}
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

// FuzzDecode checks that every decoded topology is valid and survives a second round trip.
func FuzzDecode(f *testing.F) {
	s, err := New().AddTable(table, 3, places)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Append(nil))
	if s, err = split(s, 1, At(token.Hash([]byte("a"))/2+token.Min/2, []byte("a"))); err == nil {
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(s.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), s.Append(nil)) {
			t.Fatalf("second round: %v", err)
		}
	})
}

// BenchmarkLocate measures the CPU time to find a key among the partitions of a table.
func BenchmarkLocate(b *testing.B) {
	s, err := New().AddTable(table, 256, places)
	if err != nil {
		b.Fatal(err)
	}
	key := []byte("0123456789abcdef")
	tok := token.Hash(key)
	b.ReportAllocs()
	for b.Loop() {
		if s.Locate(table, tok, key) == nil {
			b.Fatal("not found")
		}
	}
}

// split splits a partition in the same way as an entry of the partition's log.
func split(s *Snapshot, id PartitionID, at Position) (*Snapshot, error) {
	s, err := s.BeginSplit(id, at, ByOperator, time.UnixMilli(1e12))
	if err != nil {
		return nil, err
	}
	return s.EndSplit(id, time.Time{})
}
