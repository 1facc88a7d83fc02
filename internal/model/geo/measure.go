// SPDX-License-Identifier: Apache-2.0

package geo

import (
	"math"

	"github.com/golang/geo/s2"
)

// These constants define the WGS 84 ellipsoid by its equatorial radius in meters and its flattening.
const (
	equatorial = 6378137.0
	flattening = 1 / 298.257223563
	polar      = equatorial * (1 - flattening)
)

// Distance returns the distance in meters between the closest points of two geometries. The distance is 0 if the
// geometries share a point.
func Distance(a, b *Geometry) float64 {
	if Intersects(a, b) {
		return 0
	}
	best := math.Inf(1)
	var x, y s2.Point
	a.edges(func(a0, a1 s2.Point) bool {
		b.edges(func(b0, b1 s2.Point) bool {
			p, q := closest(a0, a1, b0, b1)
			if d := p.Sub(q.Vector).Norm2(); d < best {
				best, x, y = d, p, q
			}
			return true
		})
		return true
	})
	return between(s2.LatLngFromPoint(x), s2.LatLngFromPoint(y))
}

// closest returns the closest points of two edges. An edge can be a point.
func closest(a0, a1, b0, b1 s2.Point) (p, q s2.Point) {
	switch {
	case a0 == a1 && b0 == b1:
		return a0, b0
	case a0 == a1:
		return a0, s2.Project(a0, b0, b1)
	case b0 == b1:
		return s2.Project(b0, a0, a1), b0
	}
	return s2.EdgePairClosestPoints(a0, a1, b0, b1)
}

// between returns the length in meters of the geodesic between two positions. It uses the inverse method of T.
// Vincenty (Direct and Inverse Solutions of Geodesics on the Ellipsoid, 1975). This method does not converge for
// nearly opposite positions. For such positions, between returns the distance on a sphere, whose error is up to 0.5
// percent.
func between(x, y s2.LatLng) float64 {
	u1, u2 := math.Atan((1-flattening)*math.Tan(float64(x.Lat))), math.Atan((1-flattening)*math.Tan(float64(y.Lat)))
	sin1, cos1 := math.Sincos(u1)
	sin2, cos2 := math.Sincos(u2)
	l := float64(y.Lng - x.Lng)
	lambda := l
	for range 100 {
		sinL, cosL := math.Sincos(lambda)
		sinS := math.Hypot(cos2*sinL, cos1*sin2-sin1*cos2*cosL)
		if sinS == 0 {
			return 0
		}
		cosS := sin1*sin2 + cos1*cos2*cosL
		sigma := math.Atan2(sinS, cosS)
		sinA := cos1 * cos2 * sinL / sinS
		cosA2 := 1 - sinA*sinA
		cosM := 0.0 // on the equator
		if cosA2 > 0 {
			cosM = cosS - 2*sin1*sin2/cosA2
		}
		c := flattening / 16 * cosA2 * (4 + flattening*(4-3*cosA2))
		next := l + (1-c)*flattening*sinA*(sigma+c*sinS*(cosM+c*cosS*(2*cosM*cosM-1)))
		if math.Abs(next-lambda) > 1e-12 {
			lambda = next
			continue
		}
		u := cosA2 * (equatorial*equatorial - polar*polar) / (polar * polar)
		a := 1 + u/16384*(4096+u*(-768+u*(320-175*u)))
		b := u / 1024 * (256 + u*(-128+u*(74-47*u)))
		delta := b * sinS * (cosM + b/4*(cosS*(2*cosM*cosM-1)-b/6*cosM*(4*sinS*sinS-3)*(4*cosM*cosM-3)))
		return polar * a * (sigma - delta)
	}
	return float64(x.Distance(y)) * authalicRadius
}

// Area returns the area of polygons in square meters. It is 0 for points and lines.
func Area(g *Geometry) float64 {
	if g.polygon == nil {
		return 0
	}
	loops := make([]*s2.Loop, len(g.paths))
	for i, path := range g.paths {
		points := make([]s2.Point, len(path)-1)
		for j, p := range path[:len(path)-1] {
			points[j] = authalic(p)
		}
		loops[i] = s2.LoopFromPoints(points)
	}
	return s2.PolygonFromOrientedLoops(loops).Area() * authalicRadius * authalicRadius
}

// authalicRadius is the radius in meters of the sphere that has the same area as the ellipsoid.
var authalicRadius = equatorial * math.Sqrt(authalicTerm(1)/2)

// authalic maps a position on the ellipsoid to the sphere so that areas remain equal (J. P. Snyder, Map Projections: A
// Working Manual, 1987, formulas 3-11 and 3-12).
func authalic(p s2.Point) s2.Point {
	at := s2.LatLngFromPoint(p)
	sin := authalicTerm(math.Sin(float64(at.Lat))) / authalicTerm(1)
	at.Lat = s2.LatLngFromDegrees(math.Asin(max(-1, min(1, sin)))*180/math.Pi, 0).Lat
	return s2.PointFromLatLng(at)
}

// authalicTerm is the function q of the sine of a latitude.
func authalicTerm(sin float64) float64 {
	const e2 = flattening * (2 - flattening)
	e := math.Sqrt(e2)
	return (1 - e2) * (sin/(1-e2*sin*sin) - math.Log((1-e*sin)/(1+e*sin))/(2*e))
}
