// SPDX-License-Identifier: Apache-2.0

// Package chart draws measurements over time as SVG. A chart has lines on a logarithmic scale, and marks for events.
// Start reading at Chart.SVG.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Chart is a diagram.
type Chart struct {
	Title string
	// Unit is the unit of the values, such as "ms".
	Unit  string
	Lines []Line
	Marks []Mark
}

// Line is a series of values in the order of time.
type Line struct {
	Name   string
	Points []Point
}

// Point is a measured value at a given time. Only values above 0 are drawn.
type Point struct {
	At    time.Duration
	Value float64
}

// Mark is an event. Marks of the same kind have the same color.
type Mark struct {
	At   time.Duration
	Kind string
}

const (
	width, height            = 1200, 460
	left, right, top, bottom = 70, 20, 50, 50
)

// colors holds the colors of the lines. People with color vision deficiency can distinguish these colors.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+
		"\n"+`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="16">%s</text>`+"\n", left, html.EscapeString(c.Title))
	end, low, high := c.bounds()
	x := func(at time.Duration) float64 { return left + (width-left-right)*at.Seconds()/end.Seconds() }
	y := func(v float64) float64 {
		return top + (height-top-bottom)*(1-(math.Log10(v)-low)/(high-low))
	}
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%g %s</text>`+
			"\n",
			left, y(v), width-right, left-6, y(v)+4, v, html.EscapeString(c.Unit))
	}
	for i := range 11 {
		at := end * time.Duration(i) / 10
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f s</text>`+"\n", x(at), height-bottom+20,
			at.Seconds())
	}
	legend := left
	label := func(name, colour string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", legend, height-10, colour,
			html.EscapeString(name))
		legend += 9*len(name) + 25
	}
	kinds := map[string]string{}
	for _, m := range c.Marks {
		if kinds[m.Kind] == "" {
			kinds[m.Kind] = colors[len(colors)-1-len(kinds)%len(colors)]
			label("| "+m.Kind, kinds[m.Kind])
		}
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="%s" stroke-dasharray="3 3"/>`+"\n", x(m.At), top, height-bottom,
			kinds[m.Kind])
	}
	for i := range c.Lines {
		colour := colors[i%len(colors)]
		var points strings.Builder
		for _, p := range c.Lines[i].Points {
			if p.Value > 0 {
				fmt.Fprintf(&points, "%.1f,%.1f ", x(p.At), y(p.Value))
			}
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour,
			strings.TrimSpace(points.String()))
		label(c.Lines[i].Name, colour)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// bounds returns the end of the time axis and the powers of ten that enclose all values.
func (c *Chart) bounds() (end time.Duration, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range c.Lines {
		for _, p := range c.Lines[i].Points {
			end = max(end, p.At)
			if p.Value > 0 {
				low, high = min(low, math.Floor(math.Log10(p.Value))), max(high, math.Ceil(math.Log10(p.Value)))
			}
		}
	}
	for _, m := range c.Marks {
		end = max(end, m.At)
	}
	if low > high {
		low, high = 0, 1
	}
	return max(end, time.Second), low, max(high, low+1)
}
