// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestSVG checks that a chart is well-formed XML regardless of its texts. Values must keep their order, and values
// without a logarithm must be omitted. An empty chart must also be well-formed.
func TestSVG(t *testing.T) {
	c := Chart{Title: "a < b & c", Unit: "ms", Lines: []Line{{"p99", []Point{{0, 1}, {time.Second, 0},
		{2 * time.Second, 100}, {4 * time.Second, 10}}}},
		Marks: []Mark{{time.Second, "split"}, {3 * time.Second, "split"}}}
	for _, c := range []Chart{c, {}} {
		svg := string(c.SVG())
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
	}
	svg := string(c.SVG())
	for _, want := range []string{`points="70.0,410.0 625.0,50.0 1180.0,230.0"`, "a &lt; b &amp; c"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	if n := strings.Count(svg, "stroke-dasharray"); n != 2 {
		t.Errorf("%d marks", n)
	}
}
