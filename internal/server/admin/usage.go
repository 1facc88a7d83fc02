// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// TableUsage is the consumption of a table, divided into physical partitions.
type TableUsage struct {
	Name string `json:"name"`
	// PerSecond is the sum of the partitions' consumption in request units per second.
	PerSecond float64 `json:"ru_per_second"`
	// Shared is the throughput that the table shares with other tables of its keyspace. It is 0 if the table shares no
	// throughput. SharedPart is the table's fraction of the consumption of that throughput.
	Shared     int64            `json:"shared_throughput,omitempty"`
	SharedPart float64          `json:"part_of_shared,omitempty"`
	Partitions []PartitionUsage `json:"partitions"`
}

// PartitionUsage is the consumption of a physical partition on all replicas of the partition. Rates are averages over
// the last ten seconds. Totals start when the replicas are opened. Sizes are logical.
type PartitionUsage struct {
	ID         uint64 `json:"id"`
	BeginToken int64  `json:"begin_token"`
	EndToken   int64  `json:"end_token"`
	// DiskBytes and LogicalPartitions are estimates for one replica. A history does not contain them.
	DiskBytes         uint64 `json:"disk_bytes"`
	LogicalPartitions uint64 `json:"logical_partitions"`
	// Share is the partition's fraction of the table's consumption.
	Share          float64 `json:"share"`
	PerSecond      float64 `json:"ru_per_second"`
	Requests       float64 `json:"requests_per_second"`
	Bytes          float64 `json:"bytes_per_second"`
	Throttled      float64 `json:"throttled_per_second"`
	Throughput     int64   `json:"throughput,omitempty"`
	Utilisation    float64 `json:"utilisation,omitempty"`
	HotSince       string  `json:"hot_since,omitempty"`
	TotalUnits     float64 `json:"request_units_total"`
	TotalRequests  uint64  `json:"requests_total"`
	TotalThrottled uint64  `json:"throttled_total"`
	// Kinds counts the requests by kind.
	Kinds map[string]uint64 `json:"requests_by_kind"`
	// HotKeys lists the logical partitions with the highest current consumption. LargeKeys lists the largest logical
	// partitions.
	HotKeys   []HotKey               `json:"hot_keys,omitempty"`
	LargeKeys []usage.LargePartition `json:"large_keys,omitempty"`
	// Minutes lists the minutes of the last hour that had requests, starting with the oldest minute. Only a history
	// contains Minutes.
	Minutes []MinuteUsage `json:"minutes,omitempty"`
}

// HotKey is a logical partition with high consumption.
type HotKey struct {
	Key   string `json:"key"`
	Token int64  `json:"token"`
	// PerSecond covers mostly the last three seconds. Share is the key's fraction of the physical partition's
	// consumption.
	PerSecond float64 `json:"ru_per_second"`
	Share     float64 `json:"share"`
	// MinuteUnits is the number of request units in the current minute. The number may be too high by up to TooHighBy.
	// If requests are sampled, Noise is the accuracy of the number.
	MinuteUnits float64 `json:"minute_units"`
	TooHighBy   float64 `json:"too_high_by"`
	Noise       float64 `json:"noise,omitempty"`
}

// MinuteUsage is the consumption of one minute.
type MinuteUsage struct {
	// At is the start of the minute in RFC 3339 format.
	At          string  `json:"at"`
	Units       float64 `json:"request_units"`
	Requests    uint64  `json:"requests"`
	Bytes       uint64  `json:"bytes"`
	Throttled   uint64  `json:"throttled,omitempty"`
	Peak        float64 `json:"peak_ru_per_second"`
	Given       int64   `json:"given,omitempty"`
	Utilisation float64 `json:"utilisation,omitempty"`
	// TopKey is the logical partition with the highest consumption.
	TopKey string `json:"top_key,omitempty"`
}

// ShowUsage returns the consumption in the cluster by table and physical partition. table selects a single table by a
// name of the form ks.t. If table is empty, the result includes all tables. If history is set, the result contains the
// consumption by minute instead of keys.
func (n *Reporter) ShowUsage(ctx context.Context, table string, history bool) []TableUsage {
	q := usage.ReportOptions{Keys: usage.TopMax, Largest: true, Sizes: true}
	if history {
		q = usage.ReportOptions{Minutes: true}
	}
	snapshot := n.Catalog.Snapshot()
	var wanted []*schema.Table
	for ks := range snapshot.All() {
		for _, t := range ks.SortedTables() {
			if !t.Virtual && !schema.IsSystem(t.Keyspace) && (table == "" || table == t.String()) {
				wanted = append(wanted, t)
			}
		}
	}
	if len(wanted) == 1 && !snapshot.Keyspace(wanted[0].Keyspace).Throughput(wanted[0]).Shared {
		q.Table = wanted[0].ID
	}
	reports := map[uint64]*usage.Report{}
	list := n.Statistics.Usage(ctx, q)
	for i := range list {
		reports[list[i].Partition] = &list[i]
	}
	out := []TableUsage{}
	m := n.Records.State().Topology
	for _, t := range wanted {
		u := TableUsage{Name: t.String()}
		ks := snapshot.Keyspace(t.Keyspace)
		if bound := ks.Throughput(t); bound.Shared {
			u.Shared = bound.Units
			u.SharedPart = sharedPart(ks, t, list)
		}
		for _, p := range m.Partitions(t.ID) {
			tokens := p.Span.Tokens()
			part := PartitionUsage{ID: uint64(p.ID), BeginToken: int64(tokens.First()), EndToken: int64(tokens.Last())}
			if r := reports[uint64(p.ID)]; r != nil {
				part.fill(r)
			}
			u.PerSecond += part.PerSecond
			u.Partitions = append(u.Partitions, part)
		}
		for i := range u.Partitions {
			if u.PerSecond > 0 {
				u.Partitions[i].Share = u.Partitions[i].PerSecond / u.PerSecond
			}
		}
		out = append(out, u)
	}
	return out
}

// sharedPart returns a table's fraction of the consumption of all tables that share the throughput of a keyspace. The
// fraction is between 0 and 1.
func sharedPart(ks *schema.Keyspace, t *schema.Table, list []usage.Report) float64 {
	var own, all float64
	for i := range list {
		for _, other := range ks.Tables {
			if other.ID != list[i].Table || !ks.Throughput(other).Shared {
				continue
			}
			if all += list[i].UnitsPerSecond(); other == t {
				own += list[i].UnitsPerSecond()
			}
		}
	}
	if all == 0 {
		return 0
	}
	return own / all
}

func (p *PartitionUsage) fill(r *usage.Report) {
	p.PerSecond, p.Requests = r.UnitsPerSecond(), usage.PerSecond(r.Lately.Requests)
	p.Bytes, p.Throttled = usage.PerSecond(r.Lately.Bytes), usage.PerSecond(r.Lately.Throttled)
	p.Throughput, p.Utilisation = r.PerSecond, r.Lately.Utilization()
	if r.Hot != 0 {
		p.HotSince = rfc3339(r.Hot)
	}
	p.TotalUnits, p.TotalRequests, p.TotalThrottled = r.Counts.Total().Float(), r.Counts.RequestCount(), r.Throttled
	p.Kinds = map[string]uint64{}
	for k := range usage.Applied {
		if n := r.Counts.Requests[k]; n > 0 {
			p.Kinds[k.String()] = n
		}
	}
	for i := range r.Top.Keys {
		h := &r.Top.Keys[i]
		key := HotKey{Key: h.Name, Token: int64(h.Token), PerSecond: h.PerSecond, MinuteUnits: h.Units.Float(),
			TooHighBy: h.Over.Float(), Noise: h.Noise.Float()}
		if p.PerSecond > 0 {
			key.Share = min(h.PerSecond/p.PerSecond, 1)
		}
		p.HotKeys = append(p.HotKeys, key)
	}
	p.LargeKeys, p.DiskBytes, p.LogicalPartitions = r.Largest, r.DiskBytes, r.LogicalPartitions
	for i := range r.Minutes {
		m := &r.Minutes[i]
		minute := MinuteUsage{At: rfc3339(m.At), Units: m.Units.Float(), Requests: m.Requests, Bytes: m.Bytes,
			Throttled: m.Throttled, Peak: m.Peak.Float(), Given: m.Given, Utilisation: m.Utilization()}
		if len(m.Keys) > 0 {
			minute.TopKey = m.Keys[0].Name
		}
		p.Minutes = append(p.Minutes, minute)
	}
}

func rfc3339(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// Usage is the response to a request for /usage.
type Usage struct {
	Tables []TableUsage `json:"tables"`
	// Users lists the users with the highest consumption in all tables. A history does not contain users.
	Users []usage.User `json:"users,omitempty"`
}

// usagePage serves the consumption as JSON.
func (h *handler) usagePage(history bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := Usage{Tables: h.Reports.ShowUsage(r.Context(), r.URL.Query().Get("table"), history)}
		if !history {
			out.Users = h.Reports.Users(r.Context())
		}
		writeJSON(w, out)
	}
}
