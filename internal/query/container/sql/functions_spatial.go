// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/geo"
)

// spatialFunctions contains the functions of geometries in GeoJSON. They return Undefined if an argument is not a
// valid geometry. ST_ISVALID and ST_ISVALIDDETAILED are exceptions.
var spatialFunctions = map[string]builtin{
	"ST_AREA": {f: func(e *env, a []document.Value) document.Value {
		g, _ := e.geometry(a[0])
		if g == nil {
			return undefined
		}
		return document.NumberValue(geo.Area(g))
	}, min: 1, max: 1},
	"ST_DISTANCE": ofGeometries(func(a, b *geo.Geometry) document.Value {
		return document.NumberValue(geo.Distance(a, b))
	}),
	"ST_INTERSECTS": ofGeometries(func(a, b *geo.Geometry) document.Value {
		return document.BooleanValue(geo.Intersects(a, b))
	}),
	"ST_WITHIN": ofGeometries(func(a, b *geo.Geometry) document.Value {
		return document.BooleanValue(geo.Within(a, b))
	}),
	"ST_ISVALID": {f: func(e *env, a []document.Value) document.Value {
		if !a[0].IsDefined() {
			return undefined
		}
		_, err := e.geometry(a[0])
		return e.unless(document.BooleanValue(err == nil))
	}, min: 1, max: 1},
	"ST_ISVALIDDETAILED": {f: func(e *env, a []document.Value) document.Value {
		if !a[0].IsDefined() {
			return undefined
		}
		_, err := e.geometry(a[0])
		out := []document.Member{{Name: "valid", Value: document.BooleanValue(err == nil)}}
		if err != nil {
			out = append(out, document.Member{Name: "reason", Value: document.StringValue(err.Error())})
		}
		return e.unless(document.ObjectValue(out))
	}, min: 1, max: 1},
}

const (
	// geometryBytes is the memory of a geometry per byte of its text. A position has at least 6 bytes.
	geometryBytes = geo.PositionBytes / 6
	// geometrySteps is the work of parsing a geometry, in steps per byte of its text.
	geometrySteps = 4
	// edgePairSteps is the work of comparing two edges in steps.
	edgePairSteps = 4
)

// geometry parses a geometry. It returns nil and an error if v is not valid. It returns nil without an error if the
// evaluation must end.
func (e *env) geometry(v document.Value) (*geo.Geometry, error) {
	if size := v.TextSize(); !e.work(size*geometrySteps) || !e.alloc(size*geometryBytes) {
		return nil, nil
	}
	return geo.Parse(v)
}

// ofGeometries returns a function of two geometries whose work is proportional to the number of pairs of edges.
func ofGeometries(f func(a, b *geo.Geometry) document.Value) builtin {
	return builtin{min: 2, max: 2, f: func(e *env, v []document.Value) document.Value {
		a, _ := e.geometry(v[0])
		if a == nil {
			return undefined
		}
		b, _ := e.geometry(v[1])
		if b == nil || !e.work(a.Edges()*b.Edges()*edgePairSteps) {
			return undefined
		}
		return f(a, b)
	}}
}
