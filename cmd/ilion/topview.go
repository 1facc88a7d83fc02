// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// topView is a view of ilion top.
type topView int

const (
	byTable topView = iota
	byPartition
	byKey
	byUser
	topViews
)

// press returns the next view after a key press. It also reports whether the key quits the program.
func (v topView) press(key byte) (next topView, quit bool) {
	switch key {
	case 't':
		return byTable, false
	case 'p':
		return byPartition, false
	case 'k':
		return byKey, false
	case 'u':
		return byUser, false
	case '\t':
		return (v + 1) % topViews, false
	case 'q', 3, 4: // 3 is Ctrl-C and 4 is Ctrl-D
		return v, true
	}
	return v, false
}

// topRow is the usage of a table, a partition, a key, or a user.
type topRow struct {
	table     string
	partition uint64
	name      string
	units     float64
	// requests and throttled are rates per second. share is the fraction of the parent row's usage. share and
	// utilization are between 0 and 1.
	requests, throttled, share, utilization float64
	throughput, shared                      int64
	hot                                     bool
}

// rows returns the rows of a view in descending order of usage.
func (v topView) rows(spent *admin.Usage) (rows []topRow) {
	if v == byUser {
		for _, u := range spent.Users {
			rows = append(rows, topRow{name: u.Name, units: u.PerSecond, requests: u.RequestsPerSecond,
				throttled: u.RefusedPerSecond})
		}
	}
	for i := range spent.Tables {
		t := &spent.Tables[i]
		whole := topRow{table: t.Name, units: t.PerSecond, shared: t.Shared, share: t.SharedPart}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			row := topRow{table: t.Name, partition: p.ID, units: p.PerSecond, requests: p.Requests, share: p.Share,
				throttled: p.Throttled, utilization: p.Utilisation, throughput: p.Throughput, hot: p.HotSince != ""}
			whole.requests += row.requests
			whole.throttled += row.throttled
			whole.throughput += row.throughput
			whole.utilization = max(whole.utilization, row.utilization)
			whole.hot = whole.hot || row.hot
			if v == byPartition {
				rows = append(rows, row)
			}
			for k := range p.HotKeys {
				if h := &p.HotKeys[k]; v == byKey {
					rows = append(rows, topRow{table: t.Name, partition: p.ID, name: h.Key, units: h.PerSecond,
						share: h.Share})
				}
			}
		}
		if v == byTable {
			rows = append(rows, whole)
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.units, a.units), cmp.Compare(b.throttled, a.throttled),
			cmp.Compare(a.table, b.table), cmp.Compare(a.partition, b.partition), cmp.Compare(a.name, b.name))
	})
	return rows
}

// text returns the view as a table.
func (v topView) text(spent *admin.Usage) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	switch v {
	case byTable:
		fmt.Fprintln(w, "TABLE\tRU/S\tREQUESTS/S\tTHROTTLED/S\tTHROUGHPUT\tBUSIEST PARTITION")
	case byPartition:
		fmt.Fprintln(w, "TABLE\tPARTITION\tRU/S\tSHARE\tREQUESTS/S\tTHROTTLED/S\tTHROUGHPUT\tUTILIZATION")
	case byKey:
		fmt.Fprintln(w, "TABLE\tPARTITION\tRU/S\tSHARE\tKEY")
	case byUser:
		fmt.Fprintln(w, "USER\tRU/S\tREQUESTS/S\tTHROTTLED/S")
	}
	for _, r := range v.rows(spent) {
		throughput, used := "-", "-"
		if r.throughput > 0 {
			throughput, used = fmt.Sprint(r.throughput), percent(r.utilization)
		}
		if r.hot {
			used += " hot"
		}
		if r.shared > 0 {
			throughput = fmt.Sprintf("%s of %d, uses %s", throughput, r.shared, percent(r.share))
		}
		switch v {
		case byTable:
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\n", r.table, r.units, r.requests, r.throttled, throughput,
				used)
		case byPartition:
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t%.0f\t%.0f\t%s\t%s\n", r.table, r.partition, r.units, percent(r.share),
				r.requests, r.throttled, throughput, used)
		case byKey:
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t%s\n", r.table, r.partition, r.units, percent(r.share), r.name)
		case byUser:
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\n", r.name, r.units, r.requests, r.throttled)
		}
	}
	_ = w.Flush() // writes to a buffer cannot fail
	return b.String()
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// printTop prints all views.
func printTop(out io.Writer, spent *admin.Usage) error {
	for v := range topViews {
		if v > byTable {
			fmt.Fprintln(out)
		}
		if _, err := io.WriteString(out, v.text(spent)); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the lines of a screen. They are a heading, the rows that fit on the screen, and a last line. The last
// line explains the keys or shows the error from the last refresh.
func (v topView) lines(spent *admin.Usage, failed error, width, height int) []string {
	var units, requests, throttled float64
	for _, r := range byTable.rows(spent) {
		units, requests, throttled = units+r.units, requests+r.requests, throttled+r.throttled
	}
	out := []string{fmt.Sprintf("%.0f RU/s, %.0f requests/s, %.0f throttled/s", units, requests, throttled), ""}
	out = append(out, strings.Split(strings.TrimSuffix(v.text(spent), "\n"), "\n")...)
	foot := "t tables, p partitions, k keys, u users, q quit"
	if failed != nil {
		foot = strings.ReplaceAll(failed.Error(), "\n", " ")
	}
	out = append(out[:min(len(out), max(height-1, 0))], foot)
	for i, line := range out {
		out[i] = cutTo(printable(line), width)
	}
	return out
}

func cutTo(line string, width int) string {
	for utf8.RuneCountInString(line) > max(width, 0) {
		_, n := utf8.DecodeLastRuneInString(line)
		line = line[:len(line)-n]
	}
	return line
}
