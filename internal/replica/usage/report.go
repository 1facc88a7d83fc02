// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// lately is how many seconds Report.Lately is about.
	lately = 10
	// ReportsMost bounds the reports of one answer.
	ReportsMost = 1 << 12
)

// Question is what somebody wants to know of many partitions.
type Question struct {
	// Table is the only one that is asked about, 0 for all.
	Table uint32 `json:"table,omitempty"`
	// Keys is how many logical partitions of each physical one are to be told, TopMost at most.
	Keys int `json:"keys,omitempty"`
	// Minutes asks for the history.
	Minutes bool `json:"minutes,omitempty"`
	// Largest asks for the logical partitions that are largest.
	Largest bool `json:"largest,omitempty"`
	// Sizes asks for what the partitions have on disk.
	Sizes bool `json:"sizes,omitempty"`
}

// Report is what one replica has measured, or all replicas of a physical partition together.
type Report struct {
	Partition uint64 `json:"partition"`
	Table     uint32 `json:"table"`
	// Counts are since the replicas were opened, and so is Throttled.
	Counts    Counts `json:"counts"`
	Throttled uint64 `json:"throttled,omitempty"`
	// PerSecond is what the partition may take, in request units a second; 0 without a throughput.
	PerSecond int64 `json:"per_second,omitempty"`
	// Lately is what was spent in the last ten seconds.
	Lately Spent `json:"lately"`
	// Hot is since when the partition has been hot, in seconds since the epoch; 0: it is not.
	Hot int64 `json:"hot,omitempty"`
	// Top are the logical partitions that take most now.
	Top     Top     `json:"top"`
	Largest []Large `json:"largest,omitempty"`
	// DiskBytes is what one replica has on disk, and LogicalPartitions how many there are, both estimated.
	DiskBytes         uint64 `json:"disk_bytes,omitempty"`
	LogicalPartitions uint64 `json:"logical_partitions,omitempty"`

	Minutes []Minute `json:"minutes,omitempty"`
}

// Large is a logical partition with many bytes, which are logical.
type Large struct {
	Token int64  `json:"token"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Estimated says that not all of it was read.
	Estimated bool `json:"estimated,omitempty"`
}

// Busy is in the last ten seconds what was spent in each.
func (r *Report) Busy() float64 { return r.Lately.Units.Float() / lately }

// EachSecond is a number of the last ten seconds for one of them.
func EachSecond(n uint64) float64 { return float64(n) / lately }

// Report tells what was asked, but for names and the largest; now is in seconds since the epoch.
func (p *Partition) Report(q Question, b Bounds, now int64) Report {
	r := Report{Counts: p.Counts(), Throttled: b.Throttled, PerSecond: b.PerSecond}
	p.mu.Lock()
	r.Hot = p.past().hot
	seconds := p.past().seconds
	for i := len(seconds) - 1; i >= 0 && seconds[i].At >= now-lately; i-- {
		r.Lately.add(&seconds[i])
	}
	p.mu.Unlock()
	r.Lately.At, r.Lately.Given = now-lately, lately*b.PerSecond
	if q.Minutes {
		r.Minutes = p.Minutes()
	}
	return r
}

// Merge adds what several replicas tell, by partition. What is spent at replicas on different nodes adds up, and so do
// the errors of logical partitions; one that only some replicas name may have as much as the floor at the others.
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

// merge adds what another replica has spent in the same time. What was given is not given twice.
func (s *Spent) merge(o *Spent) {
	given := max(s.Given, o.Given)
	s.add(o)
	s.Given = given
}

func (t *Top) merge(o *Top, order func(a, b *Heavy) int) Top {
	out := Top{Keys: slices.Clone(t.Keys), Floor: t.Floor + o.Floor}
	for _, h := range o.Keys {
		i := slices.IndexFunc(out.Keys, func(k Heavy) bool { return k.Token == h.Token })
		if i < 0 {
			out.Keys = append(out.Keys, h)
			continue
		}
		k := &out.Keys[i]
		k.Units, k.Over, k.Noise = k.Units+h.Units, k.Over+h.Over, k.Noise+h.Noise
		k.PerSecond += h.PerSecond
		k.Name = cmp.Or(k.Name, h.Name)
	}
	slices.SortFunc(out.Keys, func(a, b Heavy) int { return cmp.Or(order(&a, &b), cmp.Compare(a.Token, b.Token)) })
	out.Keys = out.Keys[:min(len(out.Keys), TopMost)]
	return out
}

// EncodeReports and DecodeReports are the form in which nodes tell each other.
func EncodeReports(list []Report) ([]byte, error) {
	return json.Marshal(list[:min(len(list), ReportsMost)])
}

// DecodeReports reads what EncodeReports wrote.
func DecodeReports(b []byte) (list []Report, err error) {
	err = json.Unmarshal(b, &list)
	return list, err
}

const (
	// hotPart is the part of what was given from which on a partition is hot, and coolPart below which it is not any
	// more, in percent over ten seconds; it is hot, too, while requests are refused in most of them.
	hotPart  = 90
	coolPart = 70
)

// judge says whether the partition is hot now, after the last ten seconds.
func (h *history) judge(now, perSecond int64) {
	if perSecond <= 0 || len(h.seconds) == 0 {
		h.hot = 0
		return
	}
	var units ru.Units
	refused := 0
	for i := len(h.seconds) - 1; i >= 0 && h.seconds[i].At >= now-lately; i-- {
		units += h.seconds[i].Units
		if h.seconds[i].Throttled > 0 {
			refused++
		}
	}
	part := int64(units) * 100 / (int64(ru.Unit) * lately * perSecond)
	switch {
	case part >= hotPart || refused > lately/2:
		if h.hot == 0 {
			h.hot = now
		}
	case part < coolPart && refused == 0:
		h.hot = 0
	}
}

// Hot is since when the partition has been hot, in seconds since the epoch: it has spent nine tenths of what it was
// given over ten seconds, or has refused requests in most of them. 0: it is not, or has no throughput.
func (p *Partition) Hot() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.past().hot
}
