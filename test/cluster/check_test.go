// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// finish ends the load and checks on every node that all data known to the load exists.
func (l *load) finish() {
	l.t.Helper()
	l.end()
	l.report()
	l.mu.Lock()
	if l.failed > 0 {
		l.t.Errorf("%d requests failed or had wrong results:\n%s", l.failed, strings.Join(l.errs, "\n"))
	}
	l.mu.Unlock()
	l.history.check(l.t)
	c := l.f.alive()[0].dial()
	l.checkCells(c)
	l.checkCounters(c)
	l.checkBatches(c)
	l.checkLists(c)
	l.f.equal("load", loadTables...)
}

// rows reads a whole table by its first column, which is a bigint. The rows of one key are concatenated in order.
func rows(l *load, c *rawclient.Conn, level dberr.Consistency, table string) map[int64][]byte {
	l.t.Helper()
	out := map[int64][]byte{}
	err := scan(c, level, table, func(key int64, rest []byte) { out[key] = append(out[key], rest...) })
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// scan reads a table in pages.
func scan(c *rawclient.Conn, level dberr.Consistency, table string, visit func(key int64, rest []byte)) error {
	var state []byte
	for {
		q := cqlwire.Query{Text: []byte("SELECT * FROM " + table)}
		q.Consistency, q.PageSize, q.PagingState = level, 5000, state
		_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
		if err != nil {
			return fmt.Errorf("scan of %s: %w", table, err)
		}
		r, err := cqlwire.DecodeResult(body, cqlwire.V4)
		if err != nil {
			return err
		}
		cells := r.Cells
		for range r.RowCount {
			key, rest := next(cells)
			row := rest
			for range r.ColumnCount - 1 {
				_, rest = next(rest)
			}
			visit(int64(binary.BigEndian.Uint64(key)), row[:len(row)-len(rest)])
			cells = rest
		}
		if state = r.PagingState; len(state) == 0 {
			return nil
		}
	}
}

func bigint(v int64) []byte { return binary.BigEndian.AppendUint64([]byte{0, 0, 0, 8}, uint64(v)) }

func (l *load) checkCells(c *rawclient.Conn) {
	l.t.Helper()
	got := map[string]map[int64][]byte{"plain": rows(l, c, dberr.Quorum, "load.plain"),
		"stamped": rows(l, c, dberr.Quorum, "load.stamped")}
	for _, client := range l.clients {
		for _, x := range *client.cells.Load() {
			var acked int64
			if len(x.acked) > 0 {
				acked = x.acked[len(x.acked)-1].value
			}
			row := got[x.table][x.key]
			var v int64
			if row != nil {
				v = int64(binary.BigEndian.Uint64(row[4:]))
			}
			if v != acked {
				l.t.Errorf("%s %d: got %d, acknowledged %d", x.table, x.key, v, acked)
			}
		}
	}
}

func (l *load) checkCounters(c *rawclient.Conn) {
	l.t.Helper()
	got := rows(l, c, dberr.Quorum, "load.counters")
	for k := range l.counters {
		n := &l.counters[k]
		var v int64
		if row := got[int64(k)]; row != nil {
			v = int64(binary.BigEndian.Uint64(row[4:]))
		}
		if least := n.acked.Load(); v < least || v > least+n.unknown.Load() {
			l.t.Errorf("counter %d is %d: %d increments were acknowledged, %d have an unknown outcome", k, v, least,
				n.unknown.Load())
		}
	}
}

func (l *load) checkBatches(c *rawclient.Conn) {
	l.t.Helper()
	pair := func(ck, v int64) []byte { return append(bigint(ck), bigint(v)...) }
	want := []struct {
		table string
		row   []byte
	}{{"batch_a", bigint(1)}, {"batch_b", bigint(2)}, {"batch_c", append(pair(1, 3), pair(2, 4)...)}}
	// If the coordinator of a batch dies, other nodes complete the batch after a while.
	_, missing := eventually.Try(40*time.Second, func() string { return l.torn(c, want) })
	if missing != "" {
		l.t.Error(missing)
	}
}

// torn finds a batch that was applied in part, or an acknowledged batch that is missing.
func (l *load) torn(c *rawclient.Conn, want []struct {
	table string
	row   []byte
}) string {
	l.t.Helper()
	parts := map[int64]int{}
	for _, w := range want {
		for k, row := range rows(l, c, dberr.Quorum, "load."+w.table) {
			if string(row) != string(w.row) {
				return fmt.Sprintf("%s %d has %x", w.table, k, row)
			}
			parts[k]++
		}
	}
	for k, n := range parts {
		if n != len(want) {
			return fmt.Sprintf("batch %d was applied in part: %d of %d tables", k, n, len(want))
		}
	}
	known := 0
	for _, client := range l.clients {
		for k, acked := range client.batches {
			if acked && parts[k] == 0 {
				return fmt.Sprintf("acknowledged batch %d is missing", k)
			}
			if parts[k] > 0 {
				known++
			}
		}
	}
	if known != len(parts) {
		return fmt.Sprintf("%d rejected batches exist", len(parts)-known)
	}
	return ""
}

func (l *load) checkLists(c *rawclient.Conn) {
	l.t.Helper()
	got := rows(l, c, dberr.Quorum, "load.lists")
	for _, client := range l.clients {
		for _, s := range client.lists {
			row := got[s.key]
			if string(row) == string(listCell(s.acked)) || s.maybe != 0 &&
				string(row) == string(listCell(append(slices.Clone(s.acked), s.maybe))) {
				continue
			}
			l.t.Errorf("list %d differs from the appended values:\n got %x\nwant %x (perhaps %d)", s.key, row,
				listCell(s.acked), s.maybe)
		}
	}
}

// listCell returns a list<bigint> in the encoding of a result cell. An empty list is encoded as null.
func listCell(values []int64) []byte {
	if len(values) == 0 {
		return nil
	}
	body := binary.BigEndian.AppendUint32(nil, uint32(len(values)))
	for _, v := range values {
		body = append(body, bigint(v)...)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// equal checks that all nodes return the same rows. A node reads from its own replica if it has a replica.
func (f *fleet) equal(keyspace string, tables ...string) {
	f.t.Helper()
	f.until("all nodes have the same rows", eventually.Limit, func() string {
		for _, table := range tables {
			sums := map[string]string{}
			for _, m := range f.alive() {
				c := m.dial()
				h, n := sha256.New(), 0
				err := scan(c, dberr.One, keyspace+"."+table, func(key int64, rest []byte) {
					n++
					h.Write(bigint(key))
					h.Write(rest)
				})
				c.Close()
				if err != nil {
					return m.name() + ": " + err.Error()
				}
				sums[fmt.Sprintf("%d rows, %x", n, h.Sum(nil)[:4])] += " " + m.ip
			}
			if len(sums) != 1 {
				return fmt.Sprintf("table %s: %v", table, slices.Collect(maps.Keys(sums)))
			}
		}
		return ""
	})
}
