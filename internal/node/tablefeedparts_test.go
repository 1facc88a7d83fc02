// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/test/eventually"
)

// part is a consumer of a part of a table. It holds the paging state.
type part struct {
	where string
	state []byte
}

// TestTableFeedOfParts checks that consumers of token ranges and keys together receive every change once. The changes
// of each key must be in order. The consumers start at the beginning or at a given time. During the test, partitions
// split, and a consumer hands its range and its paging state to two consumers. A paging state must be rejected for a
// part that it does not cover.
func TestTableFeedOfParts(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c)) WITH cdc = true")
	const start = "cosmos_changefeed_start_time() = %s AND cosmos_changefeed_mode() = 'all'"
	text := func(where, from string) string {
		return "SELECT k, c, v FROM ks.t WHERE " + where + fmt.Sprintf(start, from)
	}
	written := 0
	write := func() {
		for range 40 {
			written++
			c.query(fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, %d, %d)", written%23, written%3, written))
		}
	}
	write()
	rng := rand.New(rand.NewPCG(1, 2))
	seen, newest := map[string]int{}, map[string]int{}
	read := func(p *part, pages int) {
		for range pages {
			c.call.Request.PageSize, c.call.Request.PagingState = int32(1+rng.IntN(5)), p.state
			r := c.query(text(p.where, "0"))
			c.call.Request.PageSize, c.call.Request.PagingState = 0, nil
			p.state = slices.Clone(r.PagingState)
			for _, row := range texts(r) {
				var v int
				if _, err := fmt.Sscan(row["v"], &v); err != nil || v <= newest[row["k"]] {
					t.Errorf("%s: %v comes after %d", p.where, row, newest[row["k"]])
				}
				seen[row["v"]]++
				newest[row["k"]] = v
			}
		}
	}
	parts := []*part{{where: "token(k) <= -4000000000000000000 AND "},
		{where: "token(k) > -4000000000000000000 AND token(k) <= 3000000000000000000 AND "},
		{where: "token(k) > 3000000000000000000 AND "}}
	for round := range 6 {
		for _, p := range parts {
			read(p, 2+rng.IntN(3))
		}
		write()
		for _, p := range n.metadata.State().Topology.Partitions(n.catalog.Snapshot().Table("ks", "t").ID) {
			if round < 2 {
				_, err := n.partitions.Split(t.Context(), operations.Split{Table: "ks.t", Partition: uint64(p.ID),
					Wait: true,
					Now:  true, At: fmt.Sprint(int64(p.Span.Begin.Ring^1<<63) + 1<<(61-round))})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if round == 2 {
			p := parts[1]
			parts[1] = &part{where: "token(k) > -4000000000000000000 AND token(k) <= 0 AND ", state: p.state}
			parts = append(parts, &part{where: "token(k) > 0 AND token(k) <= 3000000000000000000 AND ", state: p.state})
		}
	}
	for _, p := range parts {
		read(p, 200)
	}
	for v := range written {
		if seen[fmt.Sprint(v+1)] != 1 {
			t.Errorf("change %d was returned %d times", v+1, seen[fmt.Sprint(v+1)])
		}
	}
	_, ofKey := c.follow(text("k = 5 AND ", "0"), 3, nil)
	for _, where := range []string{"", "k = 6 AND ", parts[0].where, parts[2].where, "token(k) <= 1 AND "} {
		for _, state := range [][]byte{ofKey, parts[1].state} {
			c.call.Request.PageSize, c.call.Request.PagingState = 3, state
			err := attempt(c, text(where, "0"))
			if err == nil || !strings.Contains(err.Error(), "different partition key") {
				t.Errorf("a paging state of another part, with %q: %v", where, err)
			}
		}
	}
	c.call.Request.PageSize, c.call.Request.PagingState = 0, nil
	if rows, _ := c.follow(text("token(k) > 10 AND token(k) < 10 AND ", "0"), 3, nil); rows != nil {
		t.Errorf("an empty token range has the changes %v", rows)
	}
	for _, where := range []string{"k = 1 AND token(k) > 5 AND ", "k IN (1, 2) AND ", "c = 1 AND "} {
		if err := attempt(c, text(where, "0")); err == nil || !strings.Contains(err.Error(), "cannot be combined") {
			t.Errorf("%s: %v", where, err)
		}
	}
	// A feed from a start time contains all changes since that time and no earlier change.
	time.Sleep(2 * time.Millisecond) // commits have microseconds, but times of clients have milliseconds
	from := fmt.Sprint(time.Now().UnixMilli())
	last := written
	write()
	for _, p := range append(parts, &part{where: "k = 3 AND "}, &part{}) {
		rows, _ := c.follow(text(p.where, from), 7, nil)
		for _, r := range rows {
			var v int
			if _, err := fmt.Sscan(r["v"], &v); err != nil || v <= last {
				t.Errorf("%q from %s: %v", p.where, from, r)
			}
		}
		if p.where == "" && len(rows) != written-last {
			t.Errorf("from %s: %d of %d changes", from, len(rows), written-last)
		}
	}
}

// TestTableFeedTampered checks that a paging state with a changed, missing, or added byte is rejected with a clear
// message. A forged paging state with a valid checksum must not cause a panic. A paging state of the other mode or of
// another table must also be rejected.
func TestTableFeedTampered(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c)) WITH cdc = true")
	for i := range 30 {
		c.query(fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, %d, %[2]d)", i%5, i))
	}
	for _, where := range []string{"", "k = 3 AND ", "token(k) > 0 AND "} {
		text := "SELECT k, c, v FROM ks.t WHERE " + where + "cosmos_changefeed_start_time() = 0"
		c.call.Request.PageSize, c.call.Request.PagingState = 2, nil
		state := slices.Clone(c.query(text).PagingState)
		refused := func(b []byte, what string, of ...any) {
			c.call.Request.PagingState = b
			if err := attempt(c, text); err == nil || !strings.Contains(err.Error(), "paging state") {
				t.Errorf("%s%s: %v", where, fmt.Sprintf(what, of...), err)
			}
		}
		for i := range state {
			if i > 0 {
				refused(state[:i], "the first %d bytes", i)
			}
			for bit := range 8 {
				b := slices.Clone(state)
				b[i] ^= 1 << bit
				refused(b, "byte %d with another bit %d", i, bit)
				if i >= len(state)-4 {
					continue
				}
				body := b[:len(b)-4]
				forged := binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
				c.call.Request.PagingState = forged
				if err := attempt(c, text); err != nil && strings.Contains(err.Error(), "panic") {
					t.Errorf("%sbyte %d with another bit %d, forged: %v", where, i, bit, err)
				}
			}
		}
		refused(append(slices.Clone(state), 0), "a byte more")
		refused([]byte{0}, "one byte")
		refused([]byte{1, 2, 3, 4, 5, 6, 7, 8}, "eight bytes")
		c.call.Request.PagingState = state
		if err := attempt(c, strings.Replace(text, "= 0", "= 0 AND cosmos_changefeed_mode() = 'all'", 1)); err == nil {
			t.Errorf("%sa paging state of the other mode is accepted", where)
		}
	}
	c.query("CREATE TABLE ks.u (k int, c int, v int, PRIMARY KEY (k, c)) WITH cdc = true")
	if err := attempt(c, "SELECT k, c, v FROM ks.u WHERE cosmos_changefeed_start_time() = 0"); err == nil {
		t.Error("a paging state of another table is accepted")
	}
}

// TestTableFeedByServerClock checks a client that sets its own current time (now_in_seconds of protocol 5). Its
// changes must not expire before they have been read. The client must not receive an empty feed because all changes
// appear expired.
func TestTableFeedByServerClock(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true")
	const all = "SELECT k, v FROM ks.t WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = 'all'"
	for i, now := range []int32{1, 2_000_000_000, 0} {
		c.call.Request.HasNow, c.call.Request.Now = now != 0, now
		c.query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (1, %d)", i))
		c.query(fmt.Sprintf("BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (2, %d); INSERT INTO ks.t (k, v) VALUES (3, %[1]d); "+
			"APPLY BATCH", i))
	}
	for _, now := range []int32{1, 2_000_000_000, 0} {
		c.call.Request.HasNow, c.call.Request.Now = now != 0, now
		if rows, _ := c.follow(all, 4, nil); len(rows) != 9 {
			t.Errorf("at second %d the feed has the changes %v", now, rows)
		}
	}
}

// TestTableFeedBesideViews checks that a table with a materialized view has a change feed. The order in which the feed
// and the view are created must not matter. The view must have no feed, and warnings and errors must state this.
func TestTableFeedBesideViews(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("INSERT INTO ks.t (k, v) VALUES (1, 5)")
	said := func(text string) string {
		return strings.Join(c.query(text).Warnings, " ")
	}
	const view = "CREATE MATERIALIZED VIEW ks.%s AS SELECT k, v FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL " +
		"PRIMARY KEY (v, k)%s"
	c.query(fmt.Sprintf(view, "a", ""))
	c.query("ALTER TABLE ks.t WITH cdc = true")
	if got := said(fmt.Sprintf(view, "b", " WITH cdc = true")); !strings.Contains(got, "base table ks.t") {
		t.Errorf("a view with cdc = true: %q", got)
	}
	if got := said("ALTER MATERIALIZED VIEW ks.a WITH cdc = true"); !strings.Contains(got, "base table ks.t") {
		t.Errorf("ALTER of a view to cdc = true: %q", got)
	}
	for _, text := range []string{"INSERT INTO ks.t (k, v) VALUES (1, 6)", "UPDATE ks.t SET v = 7 WHERE k = 1",
		"INSERT INTO ks.t (k, v) VALUES (2, 8)", "DELETE FROM ks.t WHERE k = 1"} {
		c.query(text)
	}
	const feed = " WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = 'all'"
	rows, _ := c.follow("SELECT k, v FROM ks.t"+feed, 3, nil)
	var got []string
	for _, r := range rows {
		got = append(got, r.brief([]string{"k"}, "v"))
	}
	slices.Sort(got) // the order of different keys is undefined
	want := []string{"create 2 8 < -", "delete 1 - < 7", "replace 1 6 < 5", "replace 1 7 < 6"}
	if !slices.Equal(got, want) {
		t.Errorf("the feed has %q", got)
	}
	for _, name := range []string{"a", "b"} {
		eventually.True(t, "the view to follow", func() bool {
			r := texts(c.query("SELECT k, v FROM ks." + name))
			return len(r) == 1 && r[0]["v"] == "8"
		})
		err := attempt(c, "SELECT k, v FROM ks."+name+feed)
		if err == nil || !strings.Contains(err.Error(), "Read the change feed of its base table ks.t") {
			t.Errorf("the feed of a view: %v", err)
		}
	}
}
