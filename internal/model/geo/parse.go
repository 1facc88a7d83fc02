// SPDX-License-Identifier: Apache-2.0

// Package geo evaluates GeoJSON geometries, which are points, lines, polygons, and multipolygons with longitudes and
// latitudes in degrees. Edges are arcs of great circles. Distances and areas are measured on the WGS 84 ellipsoid.
package geo

import (
	"fmt"

	"github.com/golang/geo/s2"

	"github.com/ilion-db/ilion/internal/model/document"
)

// PositionsMax is the maximum number of positions of a geometry.
const PositionsMax = 100_000

// ringsMax is the maximum number of rings of a geometry. The time for the computation of nested rings is quadratic in
// the number of rings.
const ringsMax = 1000

// PositionBytes is the approximate memory of a position in a Geometry, in bytes.
const PositionBytes = 256

// invalid is the reason why an object is not a valid geometry. The reason is a sentence for clients.
type invalid string

func (i invalid) Error() string { return string(i) }

// Geometry is a point, a line, or a set of polygons.
type Geometry struct {
	// The number of vertices of a path is the number of its edges plus one. A point is a path with one vertex. The
	// path of a ring returns to its first vertex.
	paths   [][]s2.Point
	polygon *s2.Polygon // nil for points and lines
}

// Edges returns the number of edges, or 1 for a point.
func (g *Geometry) Edges() (n int) {
	for _, p := range g.paths {
		n += max(1, len(p)-1)
	}
	return n
}

// Parse returns the geometry that a GeoJSON object describes. If the object is invalid, the error is the reason. A
// polygon whose outer ring is in clockwise order is the region outside the ring.
func Parse(v document.Value) (*Geometry, error) {
	coordinates := v.Get("coordinates")
	if coordinates.Kind() != document.Array {
		return nil, invalid("The geometry must be an object with the members type and coordinates.")
	}
	g := &Geometry{}
	p := &parser{}
	switch kind := v.Get("type").Str(); kind {
	case "Point":
		g.paths = [][]s2.Point{{p.position(coordinates)}}
	case "LineString":
		g.paths = [][]s2.Point{p.path(coordinates, 2)}
	case "Polygon":
		p.rings(g, coordinates)
	case "MultiPolygon":
		for polygon := range coordinates.Elements() {
			p.rings(g, polygon)
		}
	default:
		return nil, invalid(fmt.Sprintf("The type %q is not supported. Use Point, LineString, Polygon, or MultiPolygon.",
			kind))
	}
	if p.err == nil && len(g.paths) == 0 {
		p.err = invalid("The geometry has no coordinates.")
	}
	if p.err != nil {
		return nil, p.err
	}
	if len(p.loops) == 0 {
		return g, nil
	}
	g.polygon = s2.PolygonFromOrientedLoops(p.loops)
	if g.polygon.Validate() != nil || selfCrossing(g.polygon) {
		return nil, invalid("The rings of a polygon must not cross.")
	}
	return g, nil
}

// selfCrossing reports whether two edges of a polygon cross.
func selfCrossing(polygon *s2.Polygon) bool {
	index := s2.NewShapeIndex()
	index.Add(polygon)
	query := s2.NewCrossingEdgeQuery(index)
	for i := range polygon.NumEdges() {
		e := polygon.Edge(i)
		if len(query.Crossings(e.V0, e.V1, polygon, s2.CrossingTypeInterior)) > 0 {
			return true
		}
	}
	return false
}

// parser parses coordinates. It keeps the first error.
type parser struct {
	err       error
	positions int
	loops     []*s2.Loop
}

func (p *parser) fail(reason string) {
	if p.err == nil {
		p.err = invalid(reason)
	}
}

// position parses [longitude, latitude] with an optional altitude, which has no effect.
func (p *parser) position(v document.Value) (point s2.Point) {
	var degrees [3]float64
	n := 0
	for c := range v.Elements() {
		if n == len(degrees) || c.Kind() != document.Number {
			n = 0
			break
		}
		degrees[n] = c.Float()
		n++
	}
	if p.positions++; p.positions > PositionsMax {
		p.fail(fmt.Sprintf("A geometry is limited to %d positions.", PositionsMax))
	}
	switch {
	case n < 2:
		p.fail("A position must be an array with the longitude and the latitude.")
	case degrees[1] < -90 || degrees[1] > 90:
		p.fail("Latitude values must be between -90 and 90 degrees.")
	case degrees[0] < -180 || degrees[0] > 180:
		p.fail("Longitude values must be between -180 and 180 degrees.")
	}
	return s2.PointFromLatLng(s2.LatLngFromDegrees(degrees[1], degrees[0]))
}

// path parses an array of positions. It omits repeated positions.
func (p *parser) path(v document.Value, atLeast int) (points []s2.Point) {
	n := 0
	for c := range v.Elements() {
		point := p.position(c)
		if p.err != nil {
			return nil
		}
		n++
		if len(points) > 0 && points[len(points)-1] == point {
			continue
		}
		points = append(points, point)
	}
	if n < atLeast {
		p.fail(fmt.Sprintf("A line needs 2 positions, and the ring of a polygon needs 4. The array has %d.", n))
	}
	return points
}

// rings parses the rings of a polygon.
func (p *parser) rings(g *Geometry, v document.Value) {
	n := 0
	for ring := range v.Elements() {
		if n++; len(p.loops) == ringsMax {
			p.fail(fmt.Sprintf("A geometry is limited to %d rings.", ringsMax))
			return
		}
		points := p.path(ring, 4)
		if p.err != nil {
			return
		}
		if points[0] != points[len(points)-1] {
			p.fail("The first and the last position of a ring must be equal.")
			return
		}
		loop := s2.LoopFromPoints(points[:len(points)-1])
		if len(points) < 4 || loop.Validate() != nil {
			p.fail("A ring must not cross or touch itself.")
			return
		}
		p.loops = append(p.loops, loop)
		g.paths = append(g.paths, points)
	}
	if n == 0 {
		p.fail("A polygon needs a ring.")
	}
}
