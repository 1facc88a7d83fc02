// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

type tableCommand struct {
	adminClient
	refreshOptions
	Table string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table or container"`
}

// Run prints the statistics of a table.
func (c *tableCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		r := new(admin.TableReport)
		err := c.fetch(ctx, "/table?table="+url.QueryEscape(c.Table), r)
		return r, func(out io.Writer) { printTable(out, r) }, err
	})
}

// printTable prints the statistics of a table as text.
func printTable(out io.Writer, r *admin.TableReport) {
	fmt.Fprintf(out, "%s, a %s\n\n", printable(r.Name), r.Kind)
	about := "about "
	if r.Exact {
		about = ""
	}
	rows, logical := "unknown", "unknown"
	if r.Sampled {
		rows, logical = about+fmt.Sprint(r.Rows), about+size(r.LogicalBytes)
	}
	dead := fmt.Sprint(r.Tombstones)
	if r.TombstonesOrMore {
		dead = "more than " + dead
	}
	if r.SweepLag > 0 {
		dead += fmt.Sprintf("; the oldest has been due for removal for %d s", r.SweepLag)
	}
	throughput := "none"
	if r.Throughput > 0 {
		throughput = fmt.Sprintf("%d RU/s", r.Throughput)
		if r.Shared {
			throughput += ", shared with other tables of the keyspace"
		}
	}
	w := newTable(out, "ROWS", rows)
	w.row("LOGICAL PARTITIONS", r.LogicalPartitions)
	w.row("PHYSICAL PARTITIONS", r.PhysicalPartitions)
	w.row("BYTES", fmt.Sprintf("%s of keys and values, %s on disk (one replica)", logical, size(r.DiskBytes)))
	w.row("DELETED OR EXPIRED", dead+", still stored")
	w.row("THROUGHPUT", throughput)
	w.row("CONSUMPTION", fmt.Sprintf("%.0f RU/s, %.0f requests/s, %.0f throttled/s", r.PerSecond, r.Requests,
		r.Throttled))
	w.row("CONSUMED IN TOTAL", fmt.Sprintf("%.0f RU, %d requests, %d throttled", r.TotalUnits, r.TotalRequests,
		r.TotalThrottled))
	w.end()
	printLatencies(out, &r.TableStats)
	printKeys(out, r)
	printIndexesAndViews(out, r)
	printUnreachable(out, r.Silent)
}

func printLatencies(out io.Writer, f *catalog.TableStats) {
	fmt.Fprintln(out)
	w := newTable(out, "LATENCY", "COUNT", "P50", "P99", "SLOWEST", "PER SECOND")
	defer w.end()
	for i, l := range []*catalog.Latency{&f.Read, &f.Scan, &f.Write} {
		w.row([]string{"read", "scan", "write"}[i], l.Count, millis(l.Median), millis(l.P99), millis(l.Slowest),
			fmt.Sprintf("%.1f", l.PerSecond))
	}
}

func printKeys(out io.Writer, r *admin.TableReport) {
	if len(r.LargeKeys) > 0 {
		fmt.Fprintln(out)
		w := newTable(out, "LARGEST", "KEY")
		for i := range r.LargeKeys {
			l := &r.LargeKeys[i]
			w.row(size(uint64(max(l.Bytes, 0))), l.Name)
		}
		w.end()
	}
	if len(r.HotKeys) > 0 {
		fmt.Fprintln(out)
		w := newTable(out, "HOTTEST", "SHARE", "KEY")
		for i := range r.HotKeys {
			h := &r.HotKeys[i]
			w.row(fmt.Sprintf("%.0f RU/s", h.PerSecond), percent(h.Share), h.Key)
		}
		w.end()
	}
}

// printIndexesAndViews prints the indexes and views of a table.
func printIndexesAndViews(out io.Writer, r *admin.TableReport) {
	if len(r.Indexes)+len(r.Views) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := newTable(out, "INDEX OR VIEW", "OF", "STATE")
	defer w.end()
	for i := range r.Indexes {
		ix := &r.Indexes[i]
		state := "built"
		if !ix.Built {
			state = fmt.Sprintf("building, %d %%", ix.Percent)
		}
		w.row(ix.Name, ix.Target, state)
	}
	for i := range r.Views {
		v := &r.Views[i]
		state := "built"
		if !v.Built {
			state = "building"
		}
		if v.Due > 0 {
			state += fmt.Sprintf(", %d pending updates, the oldest %.1f s old", v.Due, v.DueSeconds)
		}
		w.row(v.Name, "view", state)
	}
}
