// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// TableReport contains the statistics of a table from all nodes.
type TableReport struct {
	Name string `json:"name"`
	// Kind is table, view, or container.
	Kind string `json:"kind"`
	// PhysicalPartitions is the number of physical partitions. LogicalPartitions and DiskBytes are estimates for one
	// replica of each physical partition.
	PhysicalPartitions int    `json:"physical_partitions"`
	LogicalPartitions  uint64 `json:"logical_partitions"`
	DiskBytes          uint64 `json:"disk_bytes"`
	catalog.TableStats
	// Throughput is the provisioned throughput of the table in request units per second. It is 0 if the throughput is
	// unlimited. Shared is true if the table shares the throughput with other tables of its keyspace.
	Throughput     int64   `json:"throughput"`
	Shared         bool    `json:"shared_throughput"`
	PerSecond      float64 `json:"ru_per_second"`
	Requests       float64 `json:"requests_per_second"`
	Throttled      float64 `json:"throttled_per_second"`
	TotalUnits     float64 `json:"request_units_total"`
	TotalRequests  uint64  `json:"requests_total"`
	TotalThrottled uint64  `json:"throttled_total"`
	// HotKeys lists up to ten logical partitions with the highest current consumption. LargeKeys lists up to ten of
	// the largest logical partitions.
	HotKeys   []HotKey               `json:"hot_keys"`
	LargeKeys []usage.LargePartition `json:"large_keys"`
	Indexes   []IndexReport          `json:"indexes"`
	Views     []ViewReport           `json:"views"`
}

// IndexReport describes an index of a table.
type IndexReport struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	// Kind is COMPOSITES, CUSTOM, UNIQUE, or DOCUMENT.
	Kind  string `json:"kind"`
	Built bool   `json:"built"`
	// Percent is the progress of an index that is being built.
	Percent int `json:"percent"`
}

// ViewReport describes a materialized view of a table.
type ViewReport struct {
	Name  string `json:"name"`
	Built bool   `json:"built"`
	// Due is the number of pending updates for rows or ranges of rows. DueSeconds is the age of the oldest pending
	// update.
	Due        int64   `json:"due"`
	DueSeconds float64 `json:"due_seconds"`
}

// keysShown is the maximum number of logical partitions in a list.
const keysShown = 10

// Users returns the users with the highest consumption on all nodes, with their consumption.
func (n *Reporter) Users(ctx context.Context) []usage.User { return n.Statistics.Users(ctx) }

// Latency returns the latencies, in milliseconds, of a table's requests on this node. ok is false if the table has
// received no requests.
func (n *Reporter) Latency(table string, writes bool) (median, p99 float64, ok bool) {
	t, err := n.Catalog.UserTableNamed(table)
	if err != nil {
		return 0, 0, false
	}
	op := catalog.Reads
	if writes {
		op = catalog.Writes
	}
	l, ok := n.Statistics.Latency(t.ID, op)
	return l.Median, l.P99, ok
}

// Table returns the statistics of a table from all nodes. Table returns an error if the table does not exist.
func (n *Reporter) Table(ctx context.Context, name string) (*TableReport, error) {
	t, err := n.Catalog.UserTableNamed(name)
	if err != nil {
		return nil, err
	}
	figures, nowMicros := n.Statistics.Tables(ctx, []*schema.Table{t})[t.ID], n.Clock.Wall().UnixMicro()
	r := &TableReport{Name: t.String(), Kind: "table", TableStats: figures, HotKeys: []HotKey{},
		LargeKeys: []usage.LargePartition{}, Indexes: []IndexReport{}, Views: []ViewReport{}}
	switch {
	case t.Container != nil:
		r.Kind = "container"
	case t.View != nil:
		r.Kind = "view"
	}
	ks := n.Catalog.Snapshot().Keyspace(t.Keyspace)
	if bound := ks.Throughput(t); bound.Units > 0 {
		r.Throughput, r.Shared = bound.Units, bound.Shared
	}
	for _, u := range n.ShowUsage(ctx, r.Name, false) {
		if u.Name == r.Name {
			r.addUsage(&u)
		}
	}
	state := n.Records.State()
	for _, ix := range t.SortedIndexes() {
		if ix.Kind == schema.ViewKind {
			continue
		}
		i := IndexReport{Name: ix.Name, Target: ix.Column, Kind: ix.Kind, Built: !state.Building[ix.ID]}
		if at := state.Builds[ix.ID]; !i.Built && at != nil && at.Policy == ix.Policy() {
			i.Percent = at.Percent()
		}
		r.Indexes = append(r.Indexes, i)
	}
	for _, v := range ks.ViewsOf(t.Name) {
		ix := t.Hints(v.Name)
		lag := figures.Views[ix.ID]
		shown := ViewReport{Name: v.String(), Built: !state.Building[ix.ID], Due: lag.Due}
		if lag.Oldest != 0 {
			shown.DueSeconds = float64(max(nowMicros-lag.Oldest, 0)) / 1e6
		}
		r.Views = append(r.Views, shown)
	}
	return r, nil
}

func (r *TableReport) addUsage(u *TableUsage) {
	r.PhysicalPartitions, r.PerSecond = len(u.Partitions), u.PerSecond
	for i := range u.Partitions {
		p := &u.Partitions[i]
		r.LogicalPartitions, r.DiskBytes = r.LogicalPartitions+p.LogicalPartitions, r.DiskBytes+p.DiskBytes
		r.Requests, r.Throttled = r.Requests+p.Requests, r.Throttled+p.Throttled
		r.TotalUnits, r.TotalRequests = r.TotalUnits+p.TotalUnits, r.TotalRequests+p.TotalRequests
		r.TotalThrottled += p.TotalThrottled
		r.HotKeys, r.LargeKeys = append(r.HotKeys, p.HotKeys...), append(r.LargeKeys, p.LargeKeys...)
	}
	sortMost(r.HotKeys, func(k *HotKey) float64 { return k.PerSecond })
	sortMost(r.LargeKeys, func(k *usage.LargePartition) float64 { return float64(k.Bytes) })
	r.HotKeys, r.LargeKeys = r.HotKeys[:min(len(r.HotKeys), keysShown)], r.LargeKeys[:min(len(r.LargeKeys), keysShown)]
	for i := range r.HotKeys {
		// The share must be relative to the table instead of the physical partition.
		if r.HotKeys[i].Share = 0; r.PerSecond > 0 {
			r.HotKeys[i].Share = min(r.HotKeys[i].PerSecond/r.PerSecond, 1)
		}
	}
}

// sortMost sorts a list in descending order.
func sortMost[T any](list []T, of func(*T) float64) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(of(&b), of(&a)) })
}

// Ring returns the nodes on the token ring that drivers see, and the data that the nodes store.
func (n *Reporter) Ring() []catalog.RingNode {
	info := n.Catalog.Info()
	var nodes []NodeStatus
	if n.Cluster != nil {
		nodes = n.nodes()
	} else {
		id := n.Directory.Identity()
		nodes = []NodeStatus{{ID: hex.EncodeToString(id.Node[:]), State: "up", CQL: n.Address, Region: info.Datacenter,
			Zone: info.Rack, Replicas: len(n.Host.Replicas()), Leading: n.leading(),
			DiskBytes: n.Store.Metrics().DiskBytes}}
	}
	tokens := map[string][]token.Token{}
	for _, e := range append([]catalog.Endpoint{info.Endpoint}, info.Peers...) {
		tokens[hex.EncodeToString(e.HostID[:])] = e.Tokens
	}
	shares := sharesOf(tokens)
	out := []catalog.RingNode{}
	for i := range nodes {
		s := &nodes[i]
		r := catalog.RingNode{Node: s.ID, Address: s.CQL, State: s.State, Region: s.Region, Zone: s.Zone,
			Tokens: []int64{}, Share: shares[s.ID], Replicas: s.Replicas, Leading: s.Leading, DiskBytes: s.DiskBytes}
		for _, t := range tokens[s.ID] {
			r.Tokens = append(r.Tokens, int64(t))
		}
		out = append(out, r)
	}
	return out
}

// sharesOf returns the fraction of the token ring that each node owns.
func sharesOf(tokens map[string][]token.Token) map[string]float64 {
	type place struct {
		at   uint64
		node string
	}
	var ring []place
	for node, list := range tokens {
		for _, t := range list {
			ring = append(ring, place{t.Position(), node})
		}
	}
	slices.SortFunc(ring, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	shares := map[string]float64{}
	for i := range ring {
		before := ring[(i+len(ring)-1)%len(ring)].at
		part := float64(ring[i].at-before) / (1 << 64)
		if len(ring) == 1 {
			part = 1
		}
		shares[ring[i].node] += part
	}
	return shares
}

// known returns the reports of a node of the cluster. The node may be this node. heard is false if the node has sent
// no reports.
func (n *Reporter) known(node *meta.Node) (k peers.PeerStatus, heard bool) {
	if node.ID == n.Cluster.Self {
		return peers.PeerStatus{Report: n.Cluster.Node.Report(), Alive: true}, true
	}
	return n.Cluster.Peers.Report(node.ID)
}

// nodes returns the nodes of the cluster, except nodes that have left the cluster.
func (n *Reporter) nodes() (out []NodeStatus) {
	for _, node := range n.Records.State().Nodes {
		if node.State != meta.Left {
			k, heard := n.known(node)
			out = append(out, nodeStatus(node, k, heard))
		}
	}
	return out
}

// keyForm is the maximum size, in bytes, of the body of a request for endpoints. The body contains a key of up to 64
// KiB as an escaped blob literal.
const keyForm = 1 << 20

// addDiagnostics adds the endpoints for cluster-wide diagnostics. The endpoints require the same permission as the
// other read endpoints. However, canceling a session requires the permission for commands.
func (h *handler) addDiagnostics() {
	h.get("table", func(w http.ResponseWriter, r *http.Request) {
		report, err := h.Reports.Table(r.Context(), r.URL.Query().Get("table"))
		answer(w, report, err)
	})
	h.get("ring", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.Reports.Ring()) })
	h.get("endpoints", h.endpoints)
	h.mux.HandleFunc("POST /endpoints", h.gate.wrap("endpoints", look, h.endpoints))
	h.get("sessions", h.sessions)
	h.command("sessions/cancel", func(r *http.Request) (string, error) {
		return h.Diagnostics.CancelSession(r.Context(), r.URL.Query().Get("id"))
	})
	h.get("slow", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, h.Diagnostics.SlowQueries(r.Context())) })
}

// endpoints serves the location of a logical partition.
func (h *handler) endpoints(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, keyForm))
		if err == nil {
			q, err = url.ParseQuery(string(body))
		}
		if err != nil {
			http.Error(w, "invalid key: it is malformed or too long: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	found, err := h.Diagnostics.Endpoints(r.Context(), q.Get("keyspace")+"."+q.Get("table"), q["key"])
	answer(w, found, err)
}

// sessions serves the client connections.
func (h *handler) sessions(w http.ResponseWriter, r *http.Request) {
	most, err := 0, error(nil)
	if text := r.URL.Query().Get("limit"); text != "" {
		if most, err = strconv.Atoi(text); err != nil || most < 1 {
			http.Error(w, fmt.Sprintf("invalid limit %q: expected at least 1", text), http.StatusBadRequest)
			return
		}
	}
	writeJSON(w, h.Diagnostics.ListSessions(r.Context(), most))
}

// answer responds with a document, or with 404 and the error.
func answer(w http.ResponseWriter, page any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	writeJSON(w, page)
}
