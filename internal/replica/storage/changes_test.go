// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// logTable is the table used by the tests of the change log.
const logTable = keys.FirstTable + 512

// logged returns a mutation of one row of a key at a timestamp. was is the timestamp of the row's previous entry, or 0
// if the row has no entry. The mutation deletes the row if ttl is negative, and the change is kept for keep seconds.
func logged(k, clustering string, stamp, was int64, ttl int32, keep int64) command.Mutation {
	now := stamp / 1e6
	m := command.Mutation{Table: logTable, Token: token.Hash([]byte(k)), Key: []byte(k), Timestamp: stamp}
	change := command.Op{Kind: command.OpChange, Clustering: []byte(clustering), Index: command.ChangeLatest}
	var b row.Builder
	b.Reset(stamp)
	if ttl < 0 {
		b.DeleteRow(now)
		change.Index = 0
	} else {
		b.Live(ttl, now+int64(ttl))
		b.Cell(1, nil, fmt.Append(nil, stamp), ttl, now+int64(ttl))
	}
	m.Ops = append(m.Ops, command.Op{Clustering: []byte(clustering), Operand: b.Append(nil)})
	if was > 0 {
		change.Value = binary.BigEndian.AppendUint64(nil, uint64(was))
	}
	if keep > 0 {
		b.Reset(stamp)
		b.Cell(command.ChangeKind, nil, []byte{byte(command.Created)}, int32(keep), now+keep)
		change.Index |= command.ChangeKept
		change.Operand = b.Append(nil)
	}
	m.Ops = append(m.Ops, change)
	return m
}

// logReader collects the results of a change log read.
type logReader struct {
	key   string
	found []string
	max   int
	last  []byte
}

func (l *logReader) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	l.key = string(key)
	return command.More, nil
}

func (l *logReader) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	stamp, rest, _ := keys.ParseChange(clustering)
	l.found, l.last = append(l.found, fmt.Sprint(l.key, "/", string(rest), "@", stamp)), slices.Clone(clustering)
	if len(l.found) == l.max {
		return command.Stop, nil
	}
	return command.More, nil
}

func readLog(t testing.TB, s *Store, q command.Read, c command.ChangesRead) []string {
	t.Helper()
	var l logReader
	q.Table, q.Changes = logTable, &c
	if err := s.Read(context.Background(), &q, &l); err != nil {
		t.Fatal(err)
	}
	return l.found
}

// TestChangeLog checks that the log has one entry for each live row, in the order of timestamps, within the requested
// bounds, from memory and from disk. A removed entry must stay hidden when the tables on disk are filtered by
// timestamp. Reads must resume after any entry, and kept changes must be returned until they expire.
func TestChangeLog(t *testing.T) {
	const second = int64(1e6)
	for _, flushed := range []bool{false, true} {
		s := openMem(t, Options{})
		write := func(ms ...command.Mutation) {
			t.Helper()
			if err := s.Apply(ms...); err != nil {
				t.Fatal(err)
			}
			if flushed {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(logged("a", "x", 10*second, 0, 0, 50), logged("a", "y", 11*second, 0, 0, 50),
			logged("b", "x", 12*second, 0, 0, 0))
		write(logged("a", "x", 13*second, 10*second, 0, 50))
		write(logged("a", "z", 14*second, 0, 5, 0), logged("b", "x", 15*second, 12*second, -1, 0))
		one := command.Read{Key: []byte("a"), Token: token.Hash([]byte("a")), Now: 16}
		all := command.Read{Range: token.Full, Now: 16}
		for _, tc := range []struct {
			q    command.Read
			c    command.ChangesRead
			want []string
		}{
			{one, command.ChangesRead{Upto: 99 * second}, []string{"a/y@11000000", "a/x@13000000", "a/z@14000000"}},
			{one, command.ChangesRead{After: 10*second - 1, Upto: 10 * second}, nil},
			{one, command.ChangesRead{After: 11 * second, Upto: 13 * second}, []string{"a/x@13000000"}},
			{one, command.ChangesRead{After: 13 * second, Upto: 13 * second}, nil},
			{all, command.ChangesRead{Upto: 99 * second}, []string{"a/y@11000000", "a/x@13000000", "a/z@14000000"}},
			{all, command.ChangesRead{After: 11 * second, Upto: 12 * second}, nil},
			{one, command.ChangesRead{Upto: 99 * second, Kept: true},
				[]string{"a/x@10000000", "a/y@11000000", "a/x@13000000"}},
		} {
			if got := readLog(t, s, tc.q, tc.c); !slices.Equal(got, tc.want) {
				t.Errorf("%+v from %v: %v, want %v", tc.c, tc.q.Key, got, tc.want)
			}
			for n := range tc.want {
				l := &logReader{max: n + 1}
				q := tc.q
				q.Table, q.Changes = logTable, &tc.c
				if err := s.Read(t.Context(), &q, l); err != nil {
					t.Fatal(err)
				}
				q.AfterKey, q.AfterToken, q.AfterClustering = []byte(l.key), token.Hash([]byte(l.key)), l.last
				if got := readLog(t, s, q, tc.c); !slices.Equal(append(l.found, got...), tc.want) {
					t.Errorf("%+v behind %v: %v", tc.c, l.found, got)
				}
			}
		}
		one.Now = 62
		got := readLog(t, s, one, command.ChangesRead{Upto: 99 * second, Kept: true})
		if !slices.Equal(got, []string{"a/x@13000000"}) {
			t.Errorf("later there is %v", got)
		}
		// The sweeper must find entries that have expired, and entries without a row.
		s.InstallTable(Table{ID: logTable, Clustering: 1})
		g, err := s.FindGarbage(t.Context(), keys.Span{Table: logTable}, nil, 62, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		swept := 0
		for _, sw := range g.Sweeps {
			for _, key := range sw.Keys {
				if p, _ := keys.Parse(key); p.Kind >= keys.Latest {
					swept++
				}
			}
			if err := s.ApplySweep(&sw); err != nil {
				t.Fatal(err)
			}
		}
		if swept != 3 { // the expired row, and two kept changes
			t.Errorf("%d entries are swept", swept)
		}
		if got := readLog(t, s, one, command.ChangesRead{Upto: 99 * second}); len(got) != 2 {
			t.Errorf("after a sweep there is %v", got)
		}
	}
}

// BenchmarkChangeLog measures reads of the changes since a timestamp in a log of a million rows, of which the last
// thousand are new. The benchmark reads all changes, the last thousand, and none.
func BenchmarkChangeLog(b *testing.B) {
	const rows, fresh = 1_000_000, 1000
	s := openMem(b, Options{})
	for i := int64(0); i < rows; i += 500 {
		var ms []command.Mutation
		for j := range int64(500) {
			ms = append(ms, logged(fmt.Sprint("key", (i+j)*7919%rows), "x", i+j+1, 0, 0, 0))
		}
		if err := s.Apply(ms...); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := s.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
	for _, after := range []int64{0, rows - fresh, rows} {
		b.Run(fmt.Sprintf("changes=%d", rows-after), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got := readLog(b, s, command.Read{Range: token.Full},
					command.ChangesRead{After: after, Upto: rows + 1})
				if int64(len(got)) != rows-after {
					b.Fatal(len(got))
				}
			}
		})
	}
}
