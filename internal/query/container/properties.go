// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// readComputed reads the computed properties and the type of coordinates.
func (d *Definition) readComputed(v document.Value) (document.Value, *Error) {
	if strings.EqualFold(v.Get("geospatialConfig").Get("type").Str(), "Geometry") {
		d.Schema.RejectSpatial()
	}
	list := v.Get("computedProperties")
	switch {
	case !isSet(list):
		return v, nil
	case list.Kind() != document.Array || list.Len() > sql.ComputedMax:
		return v, Errorf(400, 0, "'computedProperties' must be an array of at most %d objects with a name and a query.",
			sql.ComputedMax)
	}
	for p := range list.Elements() {
		name, query := p.Get("name"), p.Get("query")
		if name.Kind() != document.String || name.Str() == "" || query.Kind() != document.String {
			return v, Errorf(400, 0, "Each of the 'computedProperties' must have a name and a query.")
		}
		if name.Str() == "id" || slices.Contains(document.SystemNames, name.Str()) {
			return v, Errorf(400, 0, "The computed property '%s' has the name of a system property. Use another name.",
				name.Str())
		}
		if err := d.Schema.AddComputed(name.Str(), query.Str()); err != nil {
			e, _ := errors.AsType[*sql.Error](err)
			return v, Errorf(400, 0, "The computed property '%s' is invalid: %s", name.Str(), e.Message)
		}
	}
	return v, nil
}

// vectorDimensionsDefault is the number of vector dimensions if a policy does not specify this number.
// flatDimensionsMax is the maximum number of dimensions for an index of type flat.
const (
	vectorDimensionsDefault = 1536
	flatDimensionsMax       = 505
)

// vectorIndexTypes are the types of vector indexes. All of them return exact results, because queries compare the
// vectors of all items that satisfy the other conditions.
var vectorIndexTypes = []string{"flat", "quantizedFlat", "diskANN"}

// readVectors reads the vector policy and checks the vector indexes.
func (d *Definition) readVectors(v document.Value) (document.Value, *Error) {
	dimensions := map[string]int{}
	for p := range v.Get("vectorEmbeddingPolicy").Get("vectorEmbeddings").Elements() {
		path, metric, n, e := vectorEmbedding(p)
		if e != nil {
			return v, e
		}
		if _, twice := dimensions[path.String()]; twice {
			return v, Errorf(400, 0, "The vector embedding policy contains the path %s more than once.", path)
		}
		dimensions[path.String()] = n
		d.Schema.SetMetric(path, metric)
	}
	for ix := range v.Get("indexingPolicy").Get("vectorIndexes").Elements() {
		path, e := vectorPath(ix)
		if e != nil {
			return v, e
		}
		n, ok := dimensions[path.String()]
		if !ok {
			return v, Errorf(400, 0, "The vector index path %s is not in the vector embedding policy.", path)
		}
		kind := ix.Get("type")
		if !isSet(kind) {
			kind = document.StringValue("")
		}
		if e := checkChoice("vectorIndexes.type", kind, vectorIndexTypes...); e != nil {
			return v, e
		}
		if strings.EqualFold(kind.Str(), "flat") && n > flatDimensionsMax {
			return v, Errorf(400, 0, "A vector index of the type flat is limited to %d dimensions, and the path %s has %d.",
				flatDimensionsMax, path, n)
		}
	}
	return v, nil
}

// vectorEmbedding reads an element of the vector policy.
func vectorEmbedding(v document.Value) (path document.Path, m sql.Metric, dimensions int, e *Error) {
	if path, e = vectorPath(v); e != nil {
		return nil, 0, 0, e
	}
	if e := checkChoice("vectorEmbeddings.dataType", v.Get("dataType"), sql.VectorTypes...); e != nil {
		return nil, 0, 0, e
	}
	if f := v.Get("distanceFunction"); isSet(f) {
		var ok bool
		if m, ok = sql.ParseMetric(f.Str()); !ok {
			return nil, 0, 0, Errorf(400, 0, "The distanceFunction of the vector path %s must be cosine, dotproduct, or "+
				"euclidean.", path)
		}
	}
	n := v.Get("dimensions")
	if !isSet(n) {
		return path, m, vectorDimensionsDefault, nil
	}
	dimensions = int(n.Float())
	if n.Float() != float64(dimensions) || dimensions < 1 || dimensions > sql.VectorDimensionsMax {
		return nil, 0, 0, Errorf(400, 0, "The dimensions of the vector path %s must be an integer from 1 to %d.", path,
			sql.VectorDimensionsMax)
	}
	return path, m, dimensions, nil
}

// vectorPath returns the path of a member of a vector policy.
func vectorPath(v document.Value) (document.Path, *Error) {
	text := v.Get("path").Str()
	path, err := document.ParsePath(text)
	if err != nil || strings.ContainsAny(text, "*[]?") {
		return nil, Errorf(400, 0, "The vector path %q is invalid. Use a path without wildcards, such as /vector.", text)
	}
	return path, nil
}
