// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/eventually"
)

// replica is the copy of a table that a consumer builds only from the feed of all changes. It maps the key of each row
// to the values and write times of v and w. The key of the static row has no clustering key.
type replica map[string][4]string

// imageOf returns the row of a change. For the static row, its only column replaces v.
func imageOf(r feedRow, previous bool) (image [4]string) {
	columns := []string{"v", "w", "writetime(v)", "writetime(w)"}
	if r["c"] == "-" {
		columns = []string{"s", "w", "writetime(s)", "writetime(w)"}
	}
	for i, c := range columns {
		if previous {
			c = "previous(" + c + ")"
		}
		image[i] = r[c]
	}
	return image
}

// apply applies a change and returns an error if the change does not match the copy.
func (m replica) apply(r feedRow) error {
	id := r["k"] + "/" + r["c"]
	op := strings.Trim(r["operation"], "'")
	if strings.HasPrefix(op, "delete_") {
		return m.erase(r)
	}
	was, there := m[id]
	if op == "create" == there {
		return fmt.Errorf("%s of %s, which is there: %v", op, id, there)
	}
	if before := imageOf(r, true); there && before != was {
		return fmt.Errorf("%s of %s has %v before, and %v was the last", op, id, before, was)
	}
	if m[id] = imageOf(r, false); op == "delete" {
		delete(m, id)
	}
	return nil
}

// erase deletes the cells that are not newer than the deletion. Row markers in this test have the server's timestamps,
// which are newer than the timestamps in statements.
func (m replica) erase(r feedRow) error {
	from, to := "", "z"
	if text := strings.Trim(r["deleted_range"], "'"); text != "-" {
		for part := range strings.SplitSeq(text, " AND ") {
			switch f := strings.Fields(part); f[1] {
			case ">=":
				from = f[2]
			case "<=":
				to = f[2]
			case "=":
				from, to = f[2], f[2]
			default:
				return fmt.Errorf("the range is %s", text)
			}
		}
	}
	at, err := strconv.ParseInt(r["deleted_timestamp"], 10, 64)
	if err != nil {
		return err
	}
	for id, image := range m {
		k, c, _ := strings.Cut(id, "/")
		if k != r["k"] || c == "-" && r["deleted_range"] != "-" || c != "-" && (c < from || c > to) {
			continue
		}
		marker := image[2] == "-" && image[3] == "-"
		for i := range 2 {
			if t, err := strconv.ParseInt(image[2+i], 10, 64); err == nil && t <= at {
				image[i], image[2+i] = "-", "-"
			}
		}
		if m[id] = image; image[2] == "-" && image[3] == "-" && (!marker || at > 1000) {
			delete(m, id)
		}
	}
	return nil
}

// statement returns a random write. Timestamps in statements are at most 1,000, and the server's timestamps are far
// greater. All cells of an inserted row have the same timestamp.
func statement(rng *rand.Rand, k int) string {
	c, v := rng.IntN(5), rng.IntN(100)
	using := ""
	if rng.IntN(2) == 0 {
		using = fmt.Sprint(" USING TIMESTAMP ", 1+rng.IntN(1000))
	}
	switch rng.IntN(11) {
	case 0, 1:
		return fmt.Sprintf("INSERT INTO ks.t (k, c, v, w) VALUES (%d, %d, %d, %d)", k, c, v, v+1)
	case 2, 3:
		return fmt.Sprintf("UPDATE ks.t%s SET v = %d WHERE k = %d AND c = %d", using, v, k, c)
	case 4:
		return fmt.Sprintf("UPDATE ks.t%s SET v = null, w = %d WHERE k = %d AND c = %d", using, v, k, c)
	case 5:
		return fmt.Sprintf("DELETE v FROM ks.t%s WHERE k = %d AND c = %d", using, k, c)
	case 6:
		return fmt.Sprintf("DELETE FROM ks.t%s WHERE k = %d AND c = %d", using, k, c)
	case 7:
		return fmt.Sprintf("DELETE FROM ks.t%s WHERE k = %d AND c >= %d AND c < %d", using, k, c, c+1+rng.IntN(3))
	case 8:
		return fmt.Sprintf("UPDATE ks.t%s SET s = %d WHERE k = %d", using, v, k)
	case 9:
		return fmt.Sprintf("DELETE FROM ks.t%s WHERE k = %d", using, k)
	}
	return fmt.Sprintf("DELETE s FROM ks.t%s WHERE k = %d", using, k)
}

// tail returns the end of a list for an error message.
func tail(list []string) []string { return list[max(0, len(list)-30):] }

// TestTableFeedReplays checks that a consumer of the feed of all changes can rebuild the table. The writes are random
// and of all kinds. They include batches, conditions, and explicit timestamps. Between the writes, the test applies
// the feed to a copy in pages of random sizes. The previous image of each change must equal the last image, and the
// final copy must equal the table. A consumer of the latest versions must have the current version of each row.
func TestTableFeedReplays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 17))
		n := startNode(t, Options{InitialPartitions: 2})
		c := newClient(t, n)
		c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		c.query("CREATE TABLE ks.t (k int, c int, s int static, v int, w int, PRIMARY KEY (k, c)) WITH cdc = true")
		const start = " WHERE cosmos_changefeed_start_time() = 0"
		var all, latest []byte
		copied, seen := replica{}, map[string]string{}
		var done []string
		write := func(text string) {
			done = append(done, text)
			c.query(text)
		}
		read := func() {
			var rows []feedRow
			size := int32(1 + rng.IntN(9))
			rows, all = c.follow("SELECT k, c, s, v, w, writetime(s), writetime(v), writetime(w) FROM ks.t"+start+
				" AND cosmos_changefeed_mode() = 'all'", size, all)
			for _, r := range rows {
				if err := copied.apply(r); err != nil {
					t.Fatalf("seed %d: %v: %v after\n%s", seed, err, r, strings.Join(tail(done), "\n"))
				}
			}
			rows, latest = c.follow("SELECT k, c, v, w FROM ks.t"+start, size, latest)
			for _, r := range rows {
				seen[r["k"]+"/"+r["c"]] = r["v"] + " " + r["w"]
			}
		}
		for range 300 {
			k := rng.IntN(3)
			switch rng.IntN(8) {
			case 0:
				kind := []string{"", "UNLOGGED "}[rng.IntN(2)]
				text := "BEGIN " + kind + "BATCH "
				for range 2 + rng.IntN(3) {
					text += statement(rng, (k+rng.IntN(2))%3) + "; "
				}
				write(text + "APPLY BATCH")
			case 1:
				write(fmt.Sprintf("UPDATE ks.t SET v = %d WHERE k = %d AND c = %d IF v > 50", rng.IntN(100), k,
					rng.IntN(5)))
			case 2:
				read()
			default:
				write(statement(rng, k))
			}
		}
		read()
		is, rows := replica{}, 0
		for _, r := range texts(c.query("SELECT k, c, s, v, w, writetime(s), writetime(v), writetime(w) FROM ks.t")) {
			if s := r["s"]; s != "-" {
				is[r["k"]+"/-"] = [4]string{s, "-", r["writetime(s)"], "-"}
			}
			if r["c"] == "-" {
				continue
			}
			rows++
			id := r["k"] + "/" + r["c"]
			if is[id] = imageOf(r, false); seen[id] != r["v"]+" "+r["w"] {
				t.Errorf("seed %d: row %s is %s %s, the latest version was %s", seed, id, r["v"], r["w"], seen[id])
			}
		}
		if !maps.Equal(is, copied) {
			t.Errorf("seed %d: the copy is\n%v\nthe table\n%v", seed, copied, is)
		}
		if rows == 0 {
			t.Logf("seed %d ends without rows", seed)
		}
	}
}

// TestTableFeedInCluster checks that a reader of all changes receives every change exactly once. The previous image of
// each change must equal the last image. Clients of four nodes write to a few rows. They assign values and append to
// lists. The partitions split and merge at the same time. The reader uses its paging state on one node after another.
func TestTableFeedInCluster(t *testing.T) {
	t.Parallel()
	nodes := []*Node{clusterNode(t, nil, Options{InitialPartitions: 2})}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	c := newClient(t, nodes[0])
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	c.query("CREATE TABLE ks.t (k int, c int, v int, l list<int>, PRIMARY KEY (k, c))")
	c.query("ALTER TABLE ks.t WITH cdc = true")
	const keys, lanes, each = 9, 6, 40
	var clients sync.WaitGroup
	acknowledged := make([][]string, lanes)
	for lane := range lanes {
		at := newClient(t, nodes[lane%len(nodes)])
		clients.Go(func() {
			for i := range each {
				id, k := lane*each+i, (lane+i)%keys
				text := fmt.Sprintf("UPDATE ks.t SET v = %d WHERE k = %d AND c = 0", id, k)
				switch i % 4 {
				case 1:
					text = fmt.Sprintf("UPDATE ks.t SET l = l + [%d] WHERE k = %d AND c = 0", id, k)
				case 2:
					text = fmt.Sprintf("BEGIN BATCH INSERT INTO ks.t (k, c, v) VALUES (%d, 0, %d); "+
						"INSERT INTO ks.t (k, c, v) VALUES (%d, %d, 1); APPLY BATCH", k, id, k+1, id+1)
				}
				if attempt(at, text) == nil && i%4 != 1 {
					acknowledged[lane] = append(acknowledged[lane], strconv.Itoa(id))
				}
			}
		})
	}
	written := make(chan struct{})
	last, came := map[string]string{}, map[string]int{}
	var feed sync.WaitGroup
	feed.Go(func() {
		var state []byte
		for n, more := 0, true; more; n++ {
			select {
			case <-written:
				more = false
			default:
			}
			at := newClient(t, nodes[n%len(nodes)])
			for ended := false; !ended; {
				at.call.Request.PageSize, at.call.Request.PagingState = 3, slices.Clone(state)
				if attempt(at, "SELECT k, c, v, l FROM ks.t WHERE cosmos_changefeed_start_time() = 0 AND "+
					"cosmos_changefeed_mode() = 'all'") != nil {
					continue // a leader has left, so the page was not returned
				}
				r := &at.call.Result
				state, ended = slices.Clone(r.PagingState), r.RowCount == 0
				for _, row := range texts(r) {
					id := row["k"] + "/" + row["c"]
					if before := row["previous(v)"] + row["previous(l)"]; last[id] != "" && last[id] != before {
						t.Errorf("row %s has %s before, but the last image was %s", id, before, last[id])
					}
					last[id] = row["v"] + row["l"]
					if row["v"] != row["previous(v)"] && row["c"] == "0" {
						came[row["v"]]++
					}
				}
			}
		}
	})
	table := nodes[0].catalog.Snapshot().Table("ks", "t").ID
	partitions := func() []*topology.Partition { return nodes[0].metadata.State().Topology.Partitions(table) }
	for _, p := range partitions() {
		if _, err := nodes[0].partitions.Split(t.Context(), operations.Split{Table: "ks.t", Partition: uint64(p.ID),
			Wait: true, Now: true, At: fmt.Sprint(int64(p.Span.Begin.Ring^1<<63) + 1<<60)}); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		two := [2]uint64{uint64(partitions()[0].ID), uint64(partitions()[1].ID)}
		o := operations.Merge{Table: "ks.t", Partitions: two, Wait: true, Now: true}
		if _, err := nodes[0].partitions.Merge(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	close(written)
	feed.Wait()
	for lane := range acknowledged {
		for _, id := range acknowledged[lane] {
			if came[id] != 1 {
				t.Errorf("the value %s was returned %d times", id, came[id])
			}
		}
	}
	c.call.Request.Consistency = 4 // 4 is QUORUM
	for _, r := range texts(c.query("SELECT k, c, v, l FROM ks.t")) {
		if id := r["k"] + "/" + r["c"]; last[id] != r["v"]+r["l"] {
			t.Errorf("row %s is %s %s, the last change was %s", id, r["v"], r["l"], last[id])
		}
	}
}
