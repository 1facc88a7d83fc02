// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
)

var topSample = &admin.Usage{Users: []usage.User{
	{Name: "batch", PerSecond: 8000, RequestsPerSecond: 1600, RefusedPerSecond: 70},
	{Name: "app", PerSecond: 1010, RequestsPerSecond: 210},
}, Tables: []admin.TableUsage{
	{Name: "ks.calm", PerSecond: 10,
		Partitions: []admin.PartitionUsage{{ID: 1, PerSecond: 10, Requests: 10, Share: 1}}},
	{Name: "ks.busy", PerSecond: 9000, Partitions: []admin.PartitionUsage{
		{ID: 2, PerSecond: 3000, Requests: 600, Share: 1. / 3, Throughput: 6000, Utilisation: 0.5},
		{ID: 3, PerSecond: 6000, Requests: 1200, Share: 2. / 3, Throughput: 6000, Utilisation: 1, Throttled: 70,
			HotSince: "2026-11-23T04:00:00Z",
			HotKeys:  []admin.HotKey{{Key: "k = 'a\x1b[2Jb'", PerSecond: 4000, Share: 0.67}}},
	}},
}}

// TestTopViews checks that each view lists entries in descending order of usage. The values of a table must be the sums
// of the values of the table's partitions. The test also checks the keys.
func TestTopViews(t *testing.T) {
	for v, want := range []string{
		"TABLE    RU/S  REQUESTS/S  THROTTLED/S  THROUGHPUT  BUSIEST PARTITION\n" +
			"ks.busy  9000  1800        70           12000       100 % hot\n" +
			"ks.calm  10    10          0            -           -\n",
		"TABLE    PARTITION  RU/S  SHARE  REQUESTS/S  THROTTLED/S  THROUGHPUT  UTILIZATION\n" +
			"ks.busy  3          6000  67 %   1200        70           6000        100 % hot\n" +
			"ks.busy  2          3000  33 %   600         0            6000        50 %\n" +
			"ks.calm  1          10    100 %  10          0            -           -\n",
		"TABLE    PARTITION  RU/S  SHARE  KEY\nks.busy  3          4000  67 %   k = 'a\x1b[2Jb'\n",
		"USER   RU/S  REQUESTS/S  THROTTLED/S\nbatch  8000  1600        70\napp    1010  210         0\n",
	} {
		if got := topView(v).text(topSample); got != want {
			t.Errorf("view %d:\n%s\nwant\n%s", v, got, want)
		}
	}
	v, pressed := byTable, ""
	for _, key := range []byte("pkut\t\t\t\tx") {
		next, quit := v.press(key)
		if v = next; quit {
			t.Errorf("%c ends it", key)
		}
		pressed += string("tpku"[v])
	}
	if pressed != "pkutpkutt" {
		t.Errorf("the views were %s", pressed)
	}
	for _, key := range []byte{'q', 3, 4} {
		if _, quit := v.press(key); !quit {
			t.Errorf("%d does not end it", key)
		}
	}
}

// TestTopFits checks that the output fits on the terminal for every terminal size. The last line must show the keys or
// an error. The output must not contain escape sequences from partition keys.
func TestTopFits(t *testing.T) {
	for v := range topViews {
		for _, size := range [][2]int{{1, 1}, {20, 3}, {80, 4}, {200, 60}} {
			lines := v.lines(topSample, nil, size[0], size[1])
			if len(lines) > size[1] {
				t.Errorf("%d lines in %v", len(lines), size)
			}
			for _, line := range lines {
				if len(line) > size[0] || strings.ContainsRune(line, '\x1b') {
					t.Errorf("%q in %v", line, size)
				}
			}
		}
		lines := v.lines(topSample, errors.New("no node\nanswers"), 80, 24)
		if lines[len(lines)-1] != "no node answers" {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
	}
}

// TestTopAtOlderNode checks the error for a node with an earlier version that does not report usage.
func TestTopAtOlderNode(t *testing.T) {
	older := httptest.NewServer(http.NotFoundHandler())
	defer older.Close()
	c := topCommand{adminClient: adminClient{HTTP: older.Listener.Addr().String()}}
	if _, _, err := c.refresh(); err == nil || !strings.Contains(err.Error(), "runs an older version") {
		t.Errorf("the error is %v", err)
	}
}

// TestTopShares checks a table that shares the throughput of its keyspace. The output must show the table's share of
// the throughput and of the usage.
func TestTopShares(t *testing.T) {
	want := "TABLE      RU/S  REQUESTS/S  THROTTLED/S  THROUGHPUT                BUSIEST PARTITION\n" +
		"ks.shares  3     1           0            4000 of 12000, uses 25 %  0 %\n"
	got := byTable.text(&admin.Usage{Tables: []admin.TableUsage{{Name: "ks.shares", PerSecond: 3, Shared: 12000,
		SharedPart: 0.25,
		Partitions: []admin.PartitionUsage{{ID: 4, PerSecond: 3, Requests: 1, Share: 1, Throughput: 4000}}}}})
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
