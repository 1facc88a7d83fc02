// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/chart"
)

var growPlot = flag.String("cluster.plot", "", "file for a plot of the latencies of TestGrowth, as SVG")

const (
	// plotStep is the minimum time between two points of a plot. plotPoints is the maximum number of points.
	plotStep   = 500 * time.Millisecond
	plotPoints = 700
)

// plot draws the latencies of all requests so far, and the partition changes during that time.
func (l *load) plot(file string, changes []admin.ChangeStatus, title string) {
	l.t.Helper()
	all := time.Since(l.began)
	step := max(plotStep, (all / plotPoints).Round(plotStep))
	steps := map[time.Duration][]time.Duration{}
	for _, c := range l.clients {
		for _, s := range c.samples {
			at := s.at.Truncate(step)
			steps[at] = append(steps[at], s.took)
		}
	}
	out := chart.Chart{Title: title, Unit: "ms", Lines: []chart.Line{{Name: "p50"}, {Name: "p99"}, {Name: "slowest"}}}
	for at := time.Duration(0); at <= all; at += step {
		took := steps[at]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		for i, q := range []float64{0.5, 0.99, 1} {
			out.Lines[i].Points = append(out.Lines[i].Points, chart.Point{At: at,
				Value: float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000})
		}
	}
	for _, c := range changes {
		if ended, err := time.Parse(time.RFC3339Nano, c.Ended); err == nil && ended.After(l.began) {
			out.Marks = append(out.Marks, chart.Mark{At: ended.Sub(l.began), Kind: c.Kind})
		}
	}
	if err := os.WriteFile(file, out.SVG(), 0o644); err != nil {
		l.t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "the plot is in", file)
}
