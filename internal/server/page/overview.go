// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// tablesMost bounds the tables that a view lists.
const tablesMost = 500

// overviewBody is the cluster at a glance.
type overviewBody struct {
	*admin.Status
	Up         int
	Partitions int
	PerSecond  float64
	Requests   float64
	Throttled  float64
	DataBytes  uint64
	Tables     []tableLine
	More       int
}

// tableLine is a table in a list.
type tableLine struct {
	Name       string
	Partitions int
	Bytes      uint64
	Logical    uint64
	PerSecond  float64
	Requests   float64
	Throttled  float64
	// Read and Write are the 99th percentiles on this node in words, empty if there was nothing.
	Read, Write string
}

func (s *site) overview(r *http.Request, status *admin.Status) any {
	b := &overviewBody{Status: status}
	for i := range status.Nodes {
		if status.Nodes[i].State != "down" {
			b.Up++
		}
	}
	for _, u := range s.o.Usage(r.Context(), "", false) {
		line := s.tableLine(&u)
		b.Partitions += line.Partitions
		b.PerSecond += line.PerSecond
		b.Requests += line.Requests
		b.Throttled += line.Throttled
		b.DataBytes += line.Bytes
		b.Tables = append(b.Tables, line)
	}
	slices.SortStableFunc(b.Tables, func(x, y tableLine) int { return strings.Compare(x.Name, y.Name) })
	if n := len(b.Tables); n > tablesMost {
		b.Tables, b.More = b.Tables[:tablesMost], n-tablesMost
	}
	return b
}

// tableLine sums a table up.
func (s *site) tableLine(u *admin.TableUsage) tableLine {
	line := tableLine{Name: u.Name, Partitions: len(u.Partitions), PerSecond: u.PerSecond}
	for i := range u.Partitions {
		p := &u.Partitions[i]
		line.Bytes += p.DiskBytes
		line.Logical += p.LogicalPartitions
		line.Requests += p.Requests
		line.Throttled += p.Throttled
	}
	if s.o.Latency != nil {
		if _, p99, ok := s.o.Latency(u.Name, false); ok {
			line.Read = millis(p99)
		}
		if _, p99, ok := s.o.Latency(u.Name, true); ok {
			line.Write = millis(p99)
		}
	}
	return line
}

// tableNames are the tables of users, for choosing one.
func tableNames(status *admin.Status) (out []string) {
	for i := range status.Tables {
		name := status.Tables[i].Name
		if ks, _, _ := strings.Cut(name, "."); !schema.IsSystem(ks) && len(out) < tablesMost {
			out = append(out, name)
		}
	}
	return out
}

// chosenTable is the table that a view is asked for, the first one if none is named.
func chosenTable(r *http.Request, names []string) string {
	if name := r.URL.Query().Get("table"); name != "" {
		return name
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}
