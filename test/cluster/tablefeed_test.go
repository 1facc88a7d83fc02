// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var (
	tableWrites = flag.Int64("table-writes", 1200, "number of acknowledged statements of TestTableChangesOverKills")
	tableKills  = flag.Int("table-kills", 1, "number of node kills in TestTableChangesOverKills")
)

// These constants define the logical partitions and rows of TestTableChangesOverKills.
const (
	tableKeys = 40
	tableRows = 6
	tableName = "shop.rows"
)

// rowAt identifies a row. For the static row, c is -1.
type rowAt struct{ k, c int32 }

// changedRow is a row of the feed or of the table. Missing numbers are -1.
type changedRow struct {
	operation, deleted string
	row                rowAt
	value, before      int32
}

// tableReader follows the feed of the table or of a token range, and sometimes returns to its last checkpoint.
type tableReader struct {
	l    *tableLoad
	all  bool
	text string
	dice *rand.Rand

	// state is the paging state of the checkpoint. rows holds the values at the checkpoint. came holds the number of
	// occurrences of each value.
	state []byte
	rows  map[rowAt]int32
	came  map[int32]int

	changes, pages, again int
	done                  chan struct{}
	finished              chan struct{}
}

func (l *tableLoad) reader(where string, all bool, seed uint64) *tableReader {
	text := "SELECT k, c, s, v FROM shop.rows WHERE " + where + "cosmos_changefeed_start_time() = 0"
	if all {
		text += " AND cosmos_changefeed_mode() = 'all'"
	}
	r := &tableReader{l: l, all: all, text: text, dice: rand.New(rand.NewPCG(seed, 29)), rows: map[rowAt]int32{},
		came: map[int32]int{}, done: make(chan struct{}), finished: make(chan struct{})}
	go r.run()
	return r
}

// page reads a page from a node. ok is false if the page could not be read.
func (r *tableReader) page(m *member, state []byte) (page []changedRow, next []byte, ok bool) {
	c, err := rawclient.Dial(r.l.f.t.Context(), m.cql(), rawclient.Options{Timeout: restTime})
	if err != nil {
		return nil, nil, false
	}
	defer c.Close()
	q := cqlwire.Query{Text: []byte(r.text)}
	q.Consistency, q.PageSize, q.PagingState = dberr.Quorum, int32(1+r.dice.IntN(200)), state
	_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	if err != nil {
		var e *cqlwire.Error
		if errors.As(err, &e) && (e.Code == cqlwire.CodeInvalid || e.Code == cqlwire.CodeProtocol) {
			r.l.f.t.Errorf("%s: %v", r.text, err)
		}
		return nil, nil, false
	}
	result, err := cqlwire.DecodeResult(body, cqlwire.V4)
	if err != nil {
		r.l.f.t.Error(err)
		return nil, nil, false
	}
	return changedRows(result, r.all), result.PagingState, true
}

// changedRows decodes k, c, s, and v. If all is set, it also decodes the metadata of all changes.
func changedRows(result *cqlwire.Result, all bool) (out []changedRow) {
	cells := result.Cells
	text := func() (b []byte) {
		n := int(int32(binary.BigEndian.Uint32(cells)))
		if cells = cells[4:]; n >= 0 {
			b, cells = cells[:n:n], cells[n:]
		}
		return b
	}
	number := func() int32 {
		if b := text(); len(b) == 4 {
			return int32(binary.BigEndian.Uint32(b))
		}
		return -1
	}
	image := func() (at rowAt, value int32) {
		at = rowAt{number(), number()}
		s, v := number(), number()
		if at.c == -1 {
			return at, s
		}
		return at, v
	}
	for range result.RowCount {
		var c changedRow
		if all {
			c.operation, _, c.deleted, _ = string(text()), text(), string(text()), text()
		}
		if c.row, c.value = image(); all {
			_, c.before = image()
		}
		out = append(out, c)
	}
	return out
}

// run reads until the end of the feed after the clients have stopped.
func (r *tableReader) run() {
	defer close(r.finished)
	nodes := r.l.f.nodes
	state, node := r.state, r.dice.IntN(len(nodes))
	var pages [][]changedRow
	for {
		last := false
		select {
		case <-r.done:
			last = true
		default:
		}
		page, next, ok := r.page(nodes[node], state)
		if !ok {
			node = (node + 1) % len(nodes)
			time.Sleep(20 * time.Millisecond) // the node is down or leads no partition
			continue
		}
		r.pages++
		pages, state = append(pages, page), next
		switch d := r.dice.IntN(12); {
		case last && len(page) == 0 || d < 3:
			for _, p := range pages {
				for i := range p {
					r.take(&p[i])
				}
			}
			r.state, pages = state, nil
		case d == 3:
			state, pages, node = r.state, nil, r.dice.IntN(len(nodes))
			r.again++
		}
		if last && len(page) == 0 {
			return
		}
		if len(page) == 0 {
			time.Sleep(100 * time.Millisecond) // poll like a client
		}
	}
}

// take checks a change against the earlier changes and applies it. Write times only increase, so a deletion deletes
// all earlier data.
func (r *tableReader) take(c *changedRow) {
	r.changes++
	was, there := r.rows[c.row]
	if !r.all {
		if there && was == c.value && c.value >= 0 {
			r.l.f.t.Errorf("%s: %+v occurs twice", r.text, *c)
		}
		r.rows[c.row] = c.value
		return
	}
	switch c.operation {
	case "create", "replace", "delete":
		if there != (c.operation != "create") || there && was != c.before {
			r.l.f.t.Errorf("%s: %+v follows %d (%v)", r.text, *c, was, there)
		}
		if c.value != c.before && c.value >= 0 {
			r.came[c.value]++
		}
		if r.rows[c.row] = c.value; c.operation == "delete" {
			delete(r.rows, c.row)
		}
	case "delete_partition":
		maps.DeleteFunc(r.rows, func(at rowAt, _ int32) bool { return at.k == c.row.k })
	case "delete_range":
		var from, to int32
		if n, err := fmt.Sscanf(c.deleted, "c >= %d AND c <= %d", &from, &to); n != 2 || err != nil {
			r.l.f.t.Errorf("%s: the range is %q", r.text, c.deleted)
		}
		maps.DeleteFunc(r.rows, func(at rowAt, _ int32) bool { return at.k == c.row.k && at.c >= from && at.c <= to })
	default:
		r.l.f.t.Errorf("%s: %+v", r.text, *c)
	}
}

// finish lets the reader read the rest.
func (r *tableReader) finish() {
	close(r.done)
	select {
	case <-r.finished:
	case <-time.After(20 * time.Minute):
		r.l.f.t.Fatalf("%s has not ended after 20 minutes", r.text)
	}
	r.l.f.t.Logf("%s: %d changes, %d final rows, %d pages, %d returns to a checkpoint", r.text, r.changes, len(r.rows),
		r.pages, r.again)
}

// TestTableChangesOverKills checks that the feed of a CQL table with cdc = true contains all changes in order, and
// once per sequence of paging states. Conditional statements and batches change rows, cells, ranges, whole keys, and
// static columns. Readers follow the whole table or token ranges and sometimes return to their last checkpoint. During
// the test, nodes are killed, and partitions split, merge, and move. At the end, the readers' copies and the
// materialized view must equal the table.
func TestTableChangesOverKills(t *testing.T) {
	f := startFleet(t, 5, "") // replica sets have four replicas, and a replica can move only to a fifth node
	f.nodes[0].do("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE shop.rows (k int, c int, s int static, v int, PRIMARY KEY (k, c)) WITH cdc = true",
		"CREATE MATERIALIZED VIEW shop.by_value AS SELECT k, c, v FROM shop.rows WHERE k IS NOT NULL AND "+
			"c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)")
	f.settle()
	l := &tableLoad{f: f, stop: make(chan struct{}), wrote: map[int32]rowAt{}}
	readers := []*tableReader{l.reader("", false, 1), l.reader("", true, 2)}
	parts := []*tableReader{l.reader("token(k) <= -3000000000000000000 AND ", true, 3),
		l.reader("token(k) > -3000000000000000000 AND token(k) <= 4000000000000000000 AND ", true, 4),
		l.reader("token(k) > 4000000000000000000 AND ", true, 5)}
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { l.run(i) })
	}
	var ids []string
	for _, m := range f.nodes {
		ids = append(ids, m.id())
	}
	began, dice := time.Now(), rand.New(rand.NewPCG(uint64(*tableWrites), uint64(*tableKills)))
	each := *tableWrites / int64(max(1, *tableKills))
	for kill := range *tableKills {
		l.until(int64(kill)*each + each/4)
		victim := f.nodes[dice.IntN(len(f.nodes))]
		by := f.without(victim)[0]
		t.Logf("%v, %d statements: %s; then %s is killed", time.Since(began).Round(time.Second), l.acked.Load(),
			changeTablePartition(dice, by, tableName, ids), victim.name())
		victim.kill()
		t.Log(changeTablePartition(dice, by, tableName, ids))
		l.until(int64(kill)*each + each/2)
		victim.start()
		f.acquaint()
		t.Log(changeTablePartition(dice, by, tableName, ids))
	}
	l.until(*tableWrites)
	close(l.stop)
	clients.Wait()
	f.settle()
	for _, r := range append(readers, parts...) {
		r.finish()
	}
	together := &tableReader{text: "all ranges together", rows: map[rowAt]int32{}, came: map[int32]int{}}
	for _, p := range parts {
		maps.Copy(together.rows, p.rows)
		for v, n := range p.came {
			together.came[v] += n
		}
	}
	is, view := l.contents(), map[rowAt]int32{}
	for at, v := range is {
		if latest, there := readers[0].rows[at]; !there || latest != v {
			t.Errorf("final value of %+v is %d, the latest version in the feed is %d (%v)", at, v, latest, there)
		}
		if at.c >= 0 && v >= 0 {
			view[at] = v
		}
	}
	for _, r := range []*tableReader{readers[1], together} {
		if !maps.Equal(r.rows, is) {
			t.Errorf("%s: the copy is\n%v\nthe table\n%v", r.text, r.rows, is)
		}
		for v, at := range l.wrote {
			if n := r.came[v]; n != 1 {
				t.Errorf("%s: value %d written to %+v occurs %d times", r.text, v, at, n)
			}
		}
	}
	conn := f.nodes[1].dial()
	f.until("the view agrees", settleTime, func() string {
		r, err := process.Query(conn, dberr.Quorum, "SELECT k, c, v, v FROM shop.by_value")
		if err != nil {
			return err.Error()
		}
		got := map[rowAt]int32{}
		for _, c := range changedRows(r, false) {
			got[c.row] = c.value
		}
		if maps.Equal(got, view) {
			return ""
		}
		return fmt.Sprintf("the view is\n%v\nthe table\n%v", got, view)
	})
	t.Logf("%d statements acknowledged in %v, %d values, %d partitions at the end", l.acked.Load(),
		time.Since(began).Round(time.Second), l.value.Load(), len(f.nodes[0].partitionsOf(tableName)))
}

// contents returns the rows of the table, including the static rows.
func (l *tableLoad) contents() map[rowAt]int32 {
	conn := l.f.nodes[0].dial()
	out := map[rowAt]int32{}
	query := func(text string) *cqlwire.Result {
		r, err := process.Query(conn, dberr.Quorum, text)
		if err != nil {
			l.f.t.Fatal(err)
		}
		return r
	}
	for _, c := range changedRows(query("SELECT k, c, s, v FROM shop.rows"), false) {
		if c.row.c >= 0 {
			out[c.row] = c.value
		}
	}
	for k, s := range staticsOf(query("SELECT k, s FROM shop.rows")) {
		out[rowAt{k, -1}] = s
	}
	return out
}

// staticsOf maps the first column of rows to the second column if the second column is not null.
func staticsOf(r *cqlwire.Result) map[int32]int32 {
	out := map[int32]int32{}
	for cells := r.Cells; len(cells) > 0; {
		var k, s []byte
		k, cells = next(cells)
		if s, cells = next(cells); len(s) == 4 {
			out[int32(binary.BigEndian.Uint32(k))] = int32(binary.BigEndian.Uint32(s))
		}
	}
	return out
}
