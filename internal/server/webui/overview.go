// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// tablesMost is the maximum number of tables in a list.
const tablesMost = 500

// overviewBody is the overview of the cluster.
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
	// Read and Write are the 99th percentiles on this node as text. They are empty if the table has received no
	// requests.
	Read, Write string
}

func (s *site) overview(r *http.Request, status *admin.Status) any {
	b := &overviewBody{Status: status}
	for i := range status.Nodes {
		if status.Nodes[i].State != "down" {
			b.Up++
		}
	}
	for _, u := range s.o.Reports.ShowUsage(r.Context(), "", false) {
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

// tableLine summarizes a table.
func (s *site) tableLine(u *admin.TableUsage) tableLine {
	line := tableLine{Name: u.Name, Partitions: len(u.Partitions), PerSecond: u.PerSecond}
	for i := range u.Partitions {
		p := &u.Partitions[i]
		line.Bytes += p.DiskBytes
		line.Logical += p.LogicalPartitions
		line.Requests += p.Requests
		line.Throttled += p.Throttled
	}
	if _, p99, ok := s.o.Reports.Latency(u.Name, false); ok {
		line.Read = millis(p99)
	}
	if _, p99, ok := s.o.Reports.Latency(u.Name, true); ok {
		line.Write = millis(p99)
	}
	return line
}

// tableNames returns the names of the user tables.
func tableNames(status *admin.Status) (out []string) {
	for i := range status.Tables {
		name := status.Tables[i].Name
		if ks, _, _ := strings.Cut(name, "."); !schema.IsSystem(ks) && len(out) < tablesMost {
			out = append(out, name)
		}
	}
	return out
}

// chosenTable returns the requested table. If the request names no table, it returns the first table.
func chosenTable(r *http.Request, names []string) string {
	if name := r.URL.Query().Get("table"); name != "" {
		return name
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}
