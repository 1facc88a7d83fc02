// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

// The heat map: a row for each physical partition, in ring order, a column for each of the last minutes.
const (
	heatMinutes = 60
	heatWidth   = 14
	heatHeight  = 16
	heatLeft    = 96
	// heatRowsMost bounds the partitions of a table that are drawn.
	heatRowsMost = 500
)

// heatTable is a table as it is drawn.
type heatTable struct {
	Name, Scale   string
	Width, Height int
	Rows          []heatRow
	More          int
}

type heatRow struct {
	Y     int
	Name  string
	Cells []heatCell
}

type heatCell struct {
	X           int
	Color, Tell string
	Throttled   bool
}

// draw makes a heat map of what was spent by minute. A partition with a throughput is coloured by how much of that it
// used, others by what they spent, of what the table's busiest minute had.
func draw(u *TableUsage, now time.Time) heatTable {
	h := heatTable{Name: u.Name, Width: heatLeft + heatMinutes*heatWidth, Scale: "part of the throughput"}
	most := 0.
	for i := range u.Partitions {
		for j := range u.Partitions[i].Minutes {
			m := &u.Partitions[i].Minutes[j]
			if m.Given == 0 {
				most = max(most, m.Units)
			}
		}
	}
	if most > 0 {
		h.Scale = fmt.Sprintf("part of %.0f RU a minute, the most of a partition", most)
	}
	first := now.Truncate(time.Minute).Add(-(heatMinutes - 1) * time.Minute)
	for i := range u.Partitions {
		if i == heatRowsMost {
			h.More = len(u.Partitions) - i
			break
		}
		p := &u.Partitions[i]
		row := heatRow{Y: i * heatHeight, Name: fmt.Sprint("partition ", p.ID)}
		for j := range p.Minutes {
			m := &p.Minutes[j]
			at, err := time.Parse(time.RFC3339, m.At)
			x := int(at.Sub(first) / time.Minute)
			if err != nil || x < 0 || x >= heatMinutes {
				continue
			}
			part := m.Utilisation
			if m.Given == 0 && most > 0 {
				part = m.Units / most
			}
			tell := fmt.Sprintf("%s, partition %d: %.0f RU, %d requests, at most %.0f RU/s, %d refused", m.At, p.ID,
				m.Units, m.Requests, m.Peak, m.Throttled)
			if m.Given > 0 {
				tell += fmt.Sprintf(", %.0f %% of its throughput", 100*m.Utilisation)
			}
			if m.TopKey != "" {
				tell += "; most by " + m.TopKey
			}
			row.Cells = append(row.Cells, heatCell{X: heatLeft + x*heatWidth, Color: heat(part), Tell: tell,
				Throttled: m.Throttled > 0})
		}
		h.Rows = append(h.Rows, row)
	}
	h.Height = len(h.Rows) * heatHeight
	return h
}

// heat is the colour of a part of the most: from pale yellow to dark red.
func heat(part float64) string {
	part = min(max(part, 0), 1)
	return fmt.Sprintf("hsl(%.0f,90%%,%.0f%%)", 55-55*part, 92-57*part)
}

var heatPage = template.Must(template.New("heat map").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Ilion heat map</title><meta http-equiv="refresh" content="30">
<style>
body { font: 14px sans-serif; margin: 2em; color: #222 } h2 { margin: 1.2em 0 .2em } p { margin: .2em 0 .6em; color: #666 }
text { font: 11px sans-serif; fill: #444 } rect { stroke: #fff; stroke-width: 1 } rect.refused { stroke: #06c; stroke-width: 2 }
</style></head><body>
<h1>Request units by physical partition and minute</h1>
<p>The last hour, up to {{.At}}. Blue frames: requests were refused. Point at a field for its figures.</p>
{{range .Tables}}<h2>{{.Name}}</h2><p>Colour: {{.Scale}}.</p>
<svg width="{{.Width}}" height="{{.Height}}" role="img" aria-label="heat map of {{.Name}}">
{{range .Rows}}{{$y := .Y}}<g transform="translate(0 {{$y}})"><text x="0" y="12">{{.Name}}</text>
{{range .Cells}}<rect x="{{.X}}" y="1" width="12" height="14" fill="{{.Color}}"{{if .Throttled}} class="refused"{{end}}>` +
	`<title>{{.Tell}}</title></rect>
{{end}}</g>
{{end}}</svg>{{if .More}}<p>and {{.More}} more partitions</p>{{end}}
{{else}}<p>There is no table.</p>{{end}}
</body></html>
`))

// heatMap serves the heat map as a page.
func heatMap(show func(ctx context.Context, table string, history bool) []TableUsage) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().UTC()
		page := struct {
			At     string
			Tables []heatTable
		}{At: now.Format(time.RFC3339)}
		for _, u := range show(r.Context(), r.URL.Query().Get("table"), true) {
			page.Tables = append(page.Tables, draw(&u, now))
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		// A client that went away in the middle of its answer is nobody to report to.
		_ = heatPage.Execute(w, page)
	}
}
