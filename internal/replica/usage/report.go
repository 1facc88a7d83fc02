// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// recentSeconds is the length of Report.Lately in seconds.
	recentSeconds = 10
	// ReportsMax is the maximum number of reports in one response.
	ReportsMax = 1 << 12
)

// ReportOptions select the contents of reports.
type ReportOptions struct {
	// Table selects one table, or all tables if it is 0.
	Table uint32 `json:"table,omitempty"`
	// Keys is the number of logical partitions to report for each physical partition. The maximum is TopMax.
	Keys int `json:"keys,omitempty"`
	// Minutes requests the history.
	Minutes bool `json:"minutes,omitempty"`
	// Largest requests the largest logical partitions.
	Largest bool `json:"largest,omitempty"`
	// Sizes requests the sizes of the partitions on disk.
	Sizes bool `json:"sizes,omitempty"`
}

// Report holds the measurements of one replica, or the combined measurements of all replicas of a physical partition.
type Report struct {
	Partition uint64 `json:"partition"`
	Table     uint32 `json:"table"`
	// Counts and Throttled are totals since the replicas were opened.
	Counts    Counts `json:"counts"`
	Throttled uint64 `json:"throttled,omitempty"`
	// PerSecond is the throughput limit in request units per second, or 0 if the throughput is not limited.
	PerSecond int64 `json:"per_second,omitempty"`
	// Lately holds the resources spent in the last ten seconds.
	Lately Spent `json:"lately"`
	// Hot is the time since which the partition has been hot, in seconds since the epoch. It is 0 if the partition is
	// not hot.
	Hot int64 `json:"hot,omitempty"`
	// Top holds the logical partitions with the highest current load.
	Top     Top              `json:"top"`
	Largest []LargePartition `json:"largest,omitempty"`
	// DiskBytes is the estimated size of one replica on disk. LogicalPartitions is the estimated number of logical
	// partitions.
	DiskBytes         uint64 `json:"disk_bytes,omitempty"`
	LogicalPartitions uint64 `json:"logical_partitions,omitempty"`

	Minutes []Minute `json:"minutes,omitempty"`
}

// LargePartition is a large logical partition. Bytes is its logical size.
type LargePartition struct {
	Token int64  `json:"token"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Estimated reports whether only a part of the partition was read.
	Estimated bool `json:"estimated,omitempty"`
}

// UnitsPerSecond returns the mean rate of the last ten seconds.
func (r *Report) UnitsPerSecond() float64 { return r.Lately.Units.Float() / recentSeconds }

// PerSecond converts a count of the last ten seconds to a rate per second.
func PerSecond(n uint64) float64 { return float64(n) / recentSeconds }

// Report returns the requested measurements, except names and the largest partitions. now is in seconds since the
// epoch.
func (p *Partition) Report(q ReportOptions, b Bounds, now int64) Report {
	r := Report{Counts: p.Counts(), Throttled: b.Throttled, PerSecond: b.PerSecond}
	p.mu.Lock()
	r.Hot = p.readHistory().hot
	seconds := p.readHistory().seconds
	for i := len(seconds) - 1; i >= 0 && seconds[i].At >= now-recentSeconds; i-- {
		r.Lately.add(&seconds[i])
	}
	p.mu.Unlock()
	r.Lately.At, r.Lately.Given = now-recentSeconds, recentSeconds*b.PerSecond
	if q.Minutes {
		r.Minutes = p.Minutes()
	}
	return r
}

// Merge combines the reports of several replicas by partition. It adds up the spent resources of different nodes and
// the errors of logical partitions. If a report does not contain a logical partition, Merge adds the floor of this
// report to the error.
func Merge(lists ...[]Report) []Report {
	of := map[uint64]*Report{}
	for _, list := range lists {
		for i := range list {
			if r := of[list[i].Partition]; r != nil {
				r.merge(&list[i])
			} else {
				of[list[i].Partition] = &list[i]
			}
		}
	}
	out := make([]Report, 0, len(of))
	for _, r := range of {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

func (r *Report) merge(o *Report) {
	for k := range Kinds {
		r.Counts.Requests[k] += o.Counts.Requests[k]
		r.Counts.Units[k] += o.Counts.Units[k]
	}
	r.Counts.RowsRead += o.Counts.RowsRead
	r.Counts.BytesRead += o.Counts.BytesRead
	r.Counts.BytesWritten += o.Counts.BytesWritten
	r.Throttled += o.Throttled
	r.PerSecond = max(r.PerSecond, o.PerSecond)
	r.Lately.merge(&o.Lately)
	if r.Hot == 0 || o.Hot != 0 && o.Hot < r.Hot {
		r.Hot = o.Hot
	}
	r.Top = r.Top.merge(&o.Top, byRecent)
	if len(o.Largest) > len(r.Largest) {
		r.Largest = o.Largest
	}
	r.DiskBytes = max(r.DiskBytes, o.DiskBytes)
	r.LogicalPartitions = max(r.LogicalPartitions, o.LogicalPartitions)
	for i := range o.Minutes {
		m := &o.Minutes[i]
		at, found := slices.BinarySearchFunc(r.Minutes, m.At, func(have Minute, at int64) int {
			return cmp.Compare(have.At, at)
		})
		if !found {
			r.Minutes = slices.Insert(r.Minutes, at, *m)
			continue
		}
		same := &r.Minutes[at]
		same.Spent.merge(&m.Spent)
		same.Peak += m.Peak
		same.PeakGiven = max(same.PeakGiven, m.PeakGiven)
		same.Top = same.Top.merge(&m.Top, byUnits)
	}
}

// merge adds the resources that another replica has spent in the same interval. It does not add the throughput.
func (s *Spent) merge(o *Spent) {
	given := max(s.Given, o.Given)
	s.add(o)
	s.Given = given
}

func (t *Top) merge(o *Top, order func(a, b *HeavyPartition) int) Top {
	out := Top{Keys: slices.Clone(t.Keys), Floor: t.Floor + o.Floor}
	for _, h := range o.Keys {
		i := slices.IndexFunc(out.Keys, func(k HeavyPartition) bool { return k.Token == h.Token })
		if i < 0 {
			out.Keys = append(out.Keys, h)
			continue
		}
		k := &out.Keys[i]
		k.Units, k.Over, k.Noise = k.Units+h.Units, k.Over+h.Over, k.Noise+h.Noise
		k.PerSecond += h.PerSecond
		k.Name = cmp.Or(k.Name, h.Name)
	}
	slices.SortFunc(out.Keys, func(a, b HeavyPartition) int {
		return cmp.Or(order(&a, &b),
			cmp.Compare(a.Token, b.Token))
	})
	out.Keys = out.Keys[:min(len(out.Keys), TopMax)]
	return out
}

const (
	// hotPercent is the utilization, in percent over ten seconds, at which a partition becomes hot. The partition
	// remains hot until the utilization falls below coolPercent. A partition is also hot if it has rejected requests in
	// most of the ten seconds.
	hotPercent  = 90
	coolPercent = 70
)

// updateHot updates hot based on the last ten seconds.
func (h *history) updateHot(now, perSecond int64) {
	if perSecond <= 0 || len(h.seconds) == 0 {
		h.hot = 0
		return
	}
	var units ru.Units
	refused := 0
	for i := len(h.seconds) - 1; i >= 0 && h.seconds[i].At >= now-recentSeconds; i-- {
		units += h.seconds[i].Units
		if h.seconds[i].Throttled > 0 {
			refused++
		}
	}
	part := int64(units) * 100 / (int64(ru.Unit) * recentSeconds * perSecond)
	switch {
	case part >= hotPercent || refused > recentSeconds/2:
		if h.hot == 0 {
			h.hot = now
		}
	case part < coolPercent && refused == 0:
		h.hot = 0
	}
}

// Hot returns the time since which the partition has been hot, in seconds since the epoch. A partition is hot if it has
// spent 90 % of its throughput over ten seconds or has rejected requests in most of these seconds. Hot returns 0 if the
// partition is not hot or has no throughput limit.
func (p *Partition) Hot() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readHistory().hot
}
