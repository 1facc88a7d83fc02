// SPDX-License-Identifier: Apache-2.0

package geo

import (
	"github.com/golang/geo/s2"
)

// Intersects reports whether two geometries share a point.
func Intersects(a, b *Geometry) bool {
	return a.contains(b.paths[0][0]) || b.contains(a.paths[0][0]) || a.anyContained(b) || b.anyContained(a) ||
		crosses(a, b, s2.MaybeCross)
}

// Within reports whether a geometry is completely inside the polygons of another geometry. It also returns true if
// both geometries are the same point.
func Within(a, b *Geometry) bool {
	if b.polygon == nil {
		return len(a.paths) == 1 && len(a.paths[0]) == 1 && b.contains(a.paths[0][0])
	}
	for _, path := range a.paths {
		for _, p := range path {
			if !b.contains(p) {
				return false
			}
		}
	}
	// No edge of a leaves b between two vertices of b, and no hole of b is inside a.
	return !crosses(a, b, s2.Cross) && b.containsChords(a) && !a.interiorContains(b)
}

// containsChords reports whether the polygons of g contain the edges of other that connect two vertices of g.
func (g *Geometry) containsChords(other *Geometry) bool {
	vertices, edges := map[s2.Point]bool{}, map[s2.Edge]bool{}
	g.edges(func(p, q s2.Point) bool {
		vertices[p], vertices[q] = true, true
		edges[s2.Edge{V0: p, V1: q}], edges[s2.Edge{V0: q, V1: p}] = true, true
		return true
	})
	inside := true
	other.edges(func(p, q s2.Point) bool {
		if vertices[p] && vertices[q] && p != q && !edges[s2.Edge{V0: p, V1: q}] {
			inside = g.polygon.ContainsPoint(s2.Interpolate(0.5, p, q))
		}
		return inside
	})
	return inside
}

// contains reports whether a point is in the interior of the polygons, or is a vertex.
func (g *Geometry) contains(p s2.Point) bool {
	if g.polygon != nil && g.polygon.ContainsPoint(p) {
		return true
	}
	for _, path := range g.paths {
		for _, v := range path {
			if v == p {
				return true
			}
		}
	}
	return false
}

// anyContained reports whether g contains the first vertex of a path of other.
func (g *Geometry) anyContained(other *Geometry) bool {
	for _, path := range other.paths {
		if g.contains(path[0]) {
			return true
		}
	}
	return false
}

// interiorContains reports whether the polygons of g contain a vertex of other that is not a vertex of g.
func (g *Geometry) interiorContains(other *Geometry) bool {
	if g.polygon == nil {
		return false
	}
	vertices := map[s2.Point]bool{}
	for _, path := range g.paths {
		for _, v := range path {
			vertices[v] = true
		}
	}
	for _, path := range other.paths {
		for _, v := range path {
			if !vertices[v] && g.polygon.ContainsPoint(v) {
				return true
			}
		}
	}
	return false
}

// crosses reports whether an edge of a and an edge of b cross. With s2.MaybeCross, a common vertex is also sufficient.
func crosses(a, b *Geometry, least s2.Crossing) (found bool) {
	a.edges(func(a0, a1 s2.Point) bool {
		b.edges(func(b0, b1 s2.Point) bool {
			if a0 != a1 && b0 != b1 {
				sign := s2.CrossingSign(a0, a1, b0, b1)
				found = sign == s2.Cross || sign == s2.MaybeCross && least == s2.MaybeCross
			}
			return !found
		})
		return !found
	})
	return found
}

// edges calls visit for each edge until visit returns false. For a point, it calls visit with two equal vertices.
func (g *Geometry) edges(visit func(p, q s2.Point) bool) {
	for _, path := range g.paths {
		if len(path) == 1 && !visit(path[0], path[0]) {
			return
		}
		for i := 1; i < len(path); i++ {
			if !visit(path[i-1], path[i]) {
				return
			}
		}
	}
}
