// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/container"
)

// resume reads a feed from a paging state and returns the error, or nil if the feed can be read.
func (c *client) resume(text string, state []byte) error {
	c.call.Request.PageSize, c.call.Request.PagingState = 10, slices.Clone(state)
	defer func() { c.call.Request.PageSize, c.call.Request.PagingState = 0, nil }()
	return attempt(c, text)
}

// TestTableFeedTurnedOff checks that the change feed of a table never omits changes without an error after it was
// disabled and enabled again. This must also be true if the changes follow in quick succession. Paging states from
// before the feed was enabled again must be rejected. A feed that starts at the beginning, or before the feed was
// enabled, must contain exactly the changes since the feed was enabled. The same applies to the feed of all changes
// while its retention is 0.
func TestTableFeedTurnedOff(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	const options = "cdc_retention_seconds = 1000"
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true AND " + options)
	const from = "SELECT k, v FROM ks.t WHERE cosmos_changefeed_start_time() = %d"
	latest := fmt.Sprintf(from, 0)
	all := latest + " AND cosmos_changefeed_mode() = 'all'"
	insert := func(v int) {
		for k := range 9 {
			c.query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k+10*(v%2), v))
		}
	}
	check := func(what string, rows []feedRow, v int) {
		t.Helper()
		if len(rows) != 9 {
			t.Errorf("%s: %d rows, want 9: %v", what, len(rows), rows)
		}
		for _, r := range rows {
			if r["v"] != fmt.Sprint(v) {
				t.Errorf("%s: %v, want only v = %d", what, r, v)
			}
		}
	}
	var ends, allEnds [][]byte
	for round := range 5 { // this runs fast enough for several rounds within a second
		v := 2 * round
		insert(v)
		rows, end := c.follow(latest, 4, nil)
		check(fmt.Sprintf("round %d, latest versions", round), rows, v)
		ends = append(ends, end)
		began := time.Now().Add(-time.Second)
		rows, end = c.follow(all, 4, nil)
		check(fmt.Sprintf("round %d, all changes", round), rows, v)
		allEnds = append(allEnds, end)
		if round > 0 {
			rows, _ = c.follow(fmt.Sprintf(from, began.UnixMilli()), 4, nil)
			check(fmt.Sprintf("round %d, latest versions from a time", round), rows, v)
		}
		for i := range ends {
			for text, state := range map[string][]byte{latest: ends[i], all: allEnds[i]} {
				err := c.resume(text, state)
				if now := i == round; now != (err == nil) ||
					!now && !strings.Contains(err.Error(), "was disabled or recreated") {
					t.Errorf("round %d, %s from round %d: %v", round, text, i, err)
				}
			}
		}
		c.query("ALTER TABLE ks.t WITH cdc = false")
		insert(v + 1) // write to other rows
		c.query("ALTER TABLE ks.t WITH cdc = true AND " + options)
	}
	insert(10)
	rows, latestEnd := c.follow(latest, 4, nil)
	check("latest versions", rows, 10)
	_, allEnd := c.follow(all, 4, nil)
	c.query("ALTER TABLE ks.t WITH cdc_retention_seconds = 0")
	insert(11)
	c.query("ALTER TABLE ks.t WITH " + options)
	insert(12)
	if err := c.resume(all, allEnd); err == nil || !strings.Contains(err.Error(), "was disabled or recreated") {
		t.Errorf("all changes without a retention in between: %v", err)
	}
	rows, _ = c.follow(all, 4, nil)
	check("all changes", rows, 12)
	if rows, _ = c.follow(latest, 4, latestEnd); len(rows) != 18 {
		t.Errorf("latest versions after the retention was changed: %d rows, want 18", len(rows))
	}
}

// TestAllVersionsTurnedOff checks the feed of all versions of a container whose change feed policy was removed and set
// again. A continuation from before the policy was set again must be rejected with status 400 in each scope of the
// container. A start time before the policy was set again must show no older version.
func TestAllVersionsTurnedOff(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	const plain = `"partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`
	const kept = `{"id":"c","changeFeedPolicy":{"retentionDuration":10},` + plain
	s := newContainer(t, n, kept)
	replace := func(body string) {
		t.Helper()
		c, err := n.Containers.ReplaceContainer(t.Context(), s.c, []byte(body), "")
		if err != nil {
			t.Fatal(err)
		}
		s.c = c
	}
	write := func(round, n int) {
		for i := range 6 {
			s.want(201, nil, create(fmt.Sprintf(`{"id":"%d-%d","k":"%d","n":%d}`, round, n, i, n)))
		}
	}
	scopes := []container.Scope{{}, {Key: key("1")}, {MinEPK: "", MaxEPK: "80"}}
	var ends []string
	for round := range 4 { // this runs fast enough for several rounds within a second
		from := container.ChangesRequest{AllVersions: true, Now: true}
		_, end := s.changes(from)
		began := time.Now()
		write(round, 1)
		docs, _ := s.changes(container.ChangesRequest{AllVersions: true, Continuation: end})
		if len(docs) != 6 {
			t.Errorf("round %d: %d changes, want 6: %v", round, len(docs), docs)
		}
		if round > 0 {
			docs, _ = s.changes(container.ChangesRequest{AllVersions: true, Since: began})
			for _, d := range docs {
				if !strings.Contains(d, fmt.Sprintf(`"id":"%d-1"`, round)) {
					t.Errorf("round %d shows a change from before: %s", round, d)
				}
			}
			if len(docs) != 6 {
				t.Errorf("round %d from a time: %d changes, want 6", round, len(docs))
			}
		}
		for i, old := range ends {
			for _, scope := range scopes {
				_, err := n.Containers.Changes(t.Context(), s.c, &container.ChangesRequest{AllVersions: true,
					Continuation: old, Scope: scope})
				if container.StatusOf(err) != 400 || !strings.Contains(err.Error(), "changes are missing") {
					t.Errorf("round %d, %+v from round %d: %v", round, scope, i, err)
				}
			}
		}
		ends = append(ends, end)
		replace(`{"id":"c",` + plain)
		write(round, 2)
		replace(kept)
	}
	latest, _ := s.changes(container.ChangesRequest{})
	if len(latest) != 48 {
		t.Errorf("the latest versions are %d, want all 48", len(latest))
	}
}
