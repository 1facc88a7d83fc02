// SPDX-License-Identifier: Apache-2.0

package geo

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

func parse(t testing.TB, text string) *Geometry {
	t.Helper()
	g, err := Parse(document.View([]byte(text)))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return g
}

// ring returns a ring of n positions around a center in counterclockwise order.
func ring(n int, x, y, radius float64) string {
	positions := make([]string, n+1)
	for i := range positions {
		sin, cos := math.Sincos(2 * math.Pi * float64(i%n) / float64(n))
		positions[i] = fmt.Sprintf("[%.9f,%.9f]", x+radius*cos, y+radius*sin)
	}
	return "[" + strings.Join(positions, ",") + "]"
}

func point(x, y float64) string { return fmt.Sprintf(`{"type":"Point","coordinates":[%v,%v]}`, x, y) }

func line(positions string) string {
	return `{"type":"LineString","coordinates":[` + positions + `]}`
}

func polygon(rings ...string) string {
	return `{"type":"Polygon","coordinates":[` + strings.Join(rings, ",") + `]}`
}

// TestMeasures checks distances and areas against the examples in the documentation of Cosmos DB and against
// GeographicLib.
func TestMeasures(t *testing.T) {
	t.Parallel()
	square := polygon("[[31.8,-5],[32,-5],[32,-4.7],[31.8,-4.7],[31.8,-5]]")
	inverse := polygon("[[31.8,-5],[31.8,-4.7],[32,-4.7],[32,-5],[31.8,-5]]")
	disk, hole := ring(64, 0, 0, 2), "[[-1,-1],[-1,1],[1,1],[1,-1],[-1,-1]]"
	filled := polygon("[[-1,-1],[1,-1],[1,1],[-1,1],[-1,-1]]")
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"nearby", Distance(parse(t, point(-122.11758113953535, 47.66901087006131)),
			parse(t, point(-122.12826822304672, 47.63980239335718))), 3345.269817267368},
		{"far", Distance(parse(t, point(-122.11758113953535, 47.66901087006131)),
			parse(t, point(-96.84368664765994, 46.81297794314663))), 1907438.421299902},
		{"equator", Distance(parse(t, point(0, 0)), parse(t, point(1, 0))), 111319.490793},
		{"a meridian over the pole", Distance(parse(t, point(0, 89)), parse(t, point(180, 89))), 223387.72982854},
		{"over the antimeridian", Distance(parse(t, point(179.5, 0)), parse(t, point(-179.5, 0))), 111319.490793},
		{"equal", Distance(parse(t, point(5, 5)), parse(t, point(5, 5))), 0},
		{"a point and a line", Distance(parse(t, point(0.5, 1)), parse(t, line("[0,0],[1,0]"))), 110574.388},
		{"lines", Distance(parse(t, line("[0,1],[1,1.5]")), parse(t, line("[0,0],[1,0]"))), 110574.388},
		{"a point in a polygon", Distance(parse(t, point(31.9, -4.9)), parse(t, square)), 0},
		{"area", Area(parse(t, square)), 735970283.0522614},
		{"area of a line", Area(parse(t, line("[0,1],[1,1.5]"))), 0},
		{"area of the outside", Area(parse(t, inverse)), 510065621724088.4 - 735970283.05},
		{"area with a hole", Area(parse(t, polygon(disk, hole))),
			Area(parse(t, polygon(disk))) - Area(parse(t, filled))},
	} {
		if math.Abs(c.got-c.want) > 1e-7*math.Abs(c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if d := Distance(parse(t, point(0, 0)), parse(t, point(180, 0))); d < 19.9e6 || d > 20.1e6 {
		t.Errorf("opposite points are %v m apart", d)
	}
}

// TestRelations checks which geometries are within other geometries, and which geometries intersect other geometries.
func TestRelations(t *testing.T) {
	t.Parallel()
	disk, inner, hole := ring(32, 10, 10, 5), ring(32, 10, 10, 1), "[[9,9],[9,11],[11,11],[11,9],[9,9]]"
	shape := polygon("[[0,0],[4,0],[4,4],[2,1],[0,4],[0,0]]") // the shape is concave at (2,1)
	for _, c := range []struct {
		what, a, b         string
		within, intersects bool
	}{
		{"a point in a disk", point(11, 11), polygon(disk), true, true},
		{"a point outside", point(16, 10), polygon(disk), false, false},
		{"a point in a hole", point(10, 10), polygon(disk, hole), false, false},
		{"a vertex", point(0, 0), shape, true, true},
		{"equal points", point(1, 1), point(1, 1), true, true},
		{"different points", point(1, 1), point(1, 2), false, false},
		{"the end of a line", point(0, 0), line("[0,0],[1,1]"), true, true},
		{"a line in a disk", line("[9,9],[11,11]"), polygon(disk), true, true},
		{"a line that leaves a disk", line("[10,10],[20,10]"), polygon(disk), false, true},
		{"a line through a hole", line("[8,10],[12,10]"), polygon(disk, hole), false, true},
		{"a line between the arms", line("[0,4],[4,4]"), shape, false, true},
		{"crossing lines", line("[0,0],[2,2]"), line("[0,2],[2,0]"), false, true},
		{"lines with a common end", line("[0,0],[2,2]"), line("[2,2],[3,0]"), false, true},
		{"separate lines", line("[0,0],[2,2]"), line("[0,1],[2,3]"), false, false},
		{"a disk in a disk", polygon(inner), polygon(disk), true, true},
		{"a disk around a disk", polygon(disk), polygon(inner), false, true},
		{"equal disks", polygon(disk), polygon(disk), true, true},
		{"a disk around a hole", polygon(ring(32, 10, 10, 3)), polygon(disk, hole), false, true},
		{"overlapping disks", polygon(ring(32, 14, 10, 2)), polygon(disk), false, true},
		{"separate disks", polygon(ring(32, 20, 10, 2)), polygon(disk), false, false},
		{"a point in the second polygon", point(1, 1),
			`{"type":"MultiPolygon","coordinates":[[` + disk + `],[[[0,0],[2,0],[2,2],[0,2],[0,0]]]]}`, true, true},
		{"a point outside of a clockwise ring", point(50, 50), polygon("[[0,0],[0,2],[2,2],[2,0],[0,0]]"), true, true},
	} {
		a, b := parse(t, c.a), parse(t, c.b)
		if got := Within(a, b); got != c.within {
			t.Errorf("%s: within %v", c.what, got)
		}
		if Intersects(a, b) != c.intersects || Intersects(b, a) != c.intersects {
			t.Errorf("%s: intersects %v, and in reverse %v", c.what, Intersects(a, b), Intersects(b, a))
		}
		if zero := Distance(a, b) == 0; zero != c.intersects {
			t.Errorf("%s: the distance is %v", c.what, Distance(a, b))
		}
	}
}

// TestInvalid checks the reasons for which geometries are rejected as invalid.
func TestInvalid(t *testing.T) {
	t.Parallel()
	many := make([]string, ringsMax+1)
	for i := range many {
		many[i] = ring(4, float64(i%100), float64(i/100), 0.4)
	}
	for text, want := range map[string]string{
		`1`:                                         "must be an object",
		`{"type":"Point"}`:                          "must be an object",
		`{"coordinates":[1,2]}`:                     "is not supported",
		`{"type":"Circle","coordinates":[1,2]}`:     "is not supported",
		`{"type":"Point","coordinates":[]}`:         "must be an array with the longitude",
		`{"type":"Point","coordinates":[1]}`:        "must be an array with the longitude",
		`{"type":"Point","coordinates":["1",2]}`:    "must be an array with the longitude",
		`{"type":"Point","coordinates":[1,2,3,4]}`:  "must be an array with the longitude",
		point(133, -184):                            "Latitude values must be between -90 and 90 degrees.",
		point(181, 0):                               "Longitude values must be between -180 and 180 degrees.",
		line("[0,0]"):                               "needs 2 positions",
		polygon():                                   "needs a ring",
		`{"type":"MultiPolygon","coordinates":[]}`:  "no coordinates",
		polygon("[[0,0],[1,0],[0,0]]"):              "needs 4",
		polygon("[[0,0],[1,0],[1,1],[0,1]]"):        "must be equal",
		polygon("[[0,0],[0,0],[0,0],[0,0]]"):        "must not cross or touch",
		polygon("[[0,0],[1,1],[1,0],[0,1],[0,0]]"):  "must not cross",
		polygon("[[0,0],[2,0],[2,2],[1,0],[0,0]]"):  "must not cross",
		polygon(ring(8, 0, 0, 2), ring(8, 2, 0, 2)): "must not cross",
		polygon(many...):                            "limited to 1000 rings",
		line(strings.Repeat("[0,1],[1,0],", PositionsMax/2) + "[0,0]"): "limited to 100000 positions",
	} {
		g, err := Parse(document.View([]byte(text)))
		if g != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
	if g := parse(t, line("[0,0],[0,0],[1,1]")); g.Edges() != 1 {
		t.Errorf("a line with a repeated position has %d edges", g.Edges())
	}
}
