// SPDX-License-Identifier: Apache-2.0

package webui

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// These constants determine the size of the heat map. It has a row for each physical partition, in ring order, and a
// column for each of the last minutes.
const (
	heatMinutes = 60
	heatWidth   = 14
	heatHeight  = 18
	heatLeft    = 110
	// heatRowsMost is the maximum number of partitions that are drawn. The busiest partitions are drawn.
	heatRowsMost = 120
	// heatSteps is the number of colors.
	heatSteps = 10
)

// heatBody is the heat map of a table.
type heatBody struct {
	Names         []string
	Table, Scale  string
	Width, Height int
	Left          int
	Rows          []heatRow
	More          int
	Hours         []heatHour
}

// heatHour is a label on the time axis.
type heatHour struct {
	X    int
	Text string
}

type heatRow struct {
	Y     int
	ID    uint64
	Cells []heatCell
}

type heatCell struct {
	X, Step   int
	Tell      string
	Throttled bool
}

func (s *site) heat(r *http.Request, status *admin.Status) any {
	b := &heatBody{Names: tableNames(status), Left: heatLeft, Width: heatLeft + heatMinutes*heatWidth}
	b.Table = chosenTable(r, b.Names)
	if b.Table == "" {
		return b
	}
	for _, u := range s.o.Reports.ShowUsage(r.Context(), b.Table, true) {
		if u.Name == b.Table {
			b.draw(&u, s.o.Clock.Wall().UTC())
		}
	}
	return b
}

// draw computes the heat map from the usage per minute. The color of a partition with provisioned throughput depends
// on its utilization. The color of any other partition depends on its usage relative to the busiest minute of the
// table.
func (b *heatBody) draw(u *admin.TableUsage, now time.Time) {
	b.Scale = "load relative to the provisioned throughput of the partition"
	most := 0.
	for i := range u.Partitions {
		for j := range u.Partitions[i].Minutes {
			if m := &u.Partitions[i].Minutes[j]; m.Given == 0 {
				most = max(most, m.Units)
			}
		}
	}
	if most > 0 {
		b.Scale = fmt.Sprintf("load relative to %.0f RU per minute, the highest value in the last hour", most)
	}
	first := now.Truncate(time.Minute).Add(-(heatMinutes - 1) * time.Minute)
	shown := busiest(u.Partitions)
	b.More = len(u.Partitions) - len(shown)
	for i, p := range shown {
		row := heatRow{Y: i * heatHeight, ID: p.ID}
		for j := range p.Minutes {
			if c, ok := cellOf(p, &p.Minutes[j], first, most); ok {
				row.Cells = append(row.Cells, c)
			}
		}
		b.Rows = append(b.Rows, row)
	}
	b.Height = len(b.Rows)*heatHeight + heatHeight
	for x := range heatMinutes {
		if at := first.Add(time.Duration(x) * time.Minute); at.Minute()%10 == 0 {
			b.Hours = append(b.Hours, heatHour{heatLeft + x*heatWidth, at.Format("15:04")})
		}
	}
}

// busiest returns, in ring order, the partitions that are drawn.
func busiest(ps []admin.PartitionUsage) (out []*admin.PartitionUsage) {
	spent := func(p *admin.PartitionUsage) (sum float64) {
		for i := range p.Minutes {
			sum += p.Minutes[i].Units
		}
		return sum
	}
	least := 0.
	if len(ps) > heatRowsMost {
		all := make([]float64, len(ps))
		for i := range ps {
			all[i] = spent(&ps[i])
		}
		slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
		least = all[heatRowsMost-1]
	}
	for i := range ps {
		if len(out) < heatRowsMost && spent(&ps[i]) >= least {
			out = append(out, &ps[i])
		}
	}
	return out
}

// cellOf returns the cell for one minute of a partition. ok is false if the minute is outside the heat map.
func cellOf(p *admin.PartitionUsage, m *admin.MinuteUsage, first time.Time, most float64) (c heatCell, ok bool) {
	at, err := time.Parse(time.RFC3339, m.At)
	x := int(at.Sub(first) / time.Minute)
	if err != nil || at.Before(first) || x >= heatMinutes {
		return c, false
	}
	part := m.Utilisation
	if m.Given == 0 && most > 0 {
		part = m.Units / most
	}
	tell := fmt.Sprintf("%s, partition %d: %.0f RU, %d requests, peak %.0f RU/s, %d rejected", m.At, p.ID,
		m.Units, m.Requests, m.Peak, m.Throttled)
	if m.Given > 0 {
		tell += fmt.Sprintf(", %.0f %% of its throughput", 100*m.Utilisation)
	}
	if m.TopKey != "" {
		tell += "; busiest key: " + m.TopKey
	}
	return heatCell{X: heatLeft + x*heatWidth, Step: min(int(max(part, 0)*heatSteps), heatSteps-1), Tell: tell,
		Throttled: m.Throttled > 0}, true
}
