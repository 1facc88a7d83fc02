// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Metric is a measure of the similarity of two vectors.
type Metric byte

// These are the metrics. Larger values of Cosine and DotProduct, and smaller values of Euclidean, are more similar.
const (
	Cosine Metric = iota
	DotProduct
	Euclidean
)

var metricNames = [...]string{"cosine", "dotproduct", "euclidean"}

// String returns the name of the metric in Cosmos DB.
func (m Metric) String() string { return metricNames[m] }

// ParseMetric returns the metric with a name, in any case. ok is false if the name is unknown.
func ParseMetric(name string) (m Metric, ok bool) {
	i := slices.Index(metricNames[:], strings.ToLower(name))
	return Metric(max(i, 0)), i >= 0
}

// VectorTypes contains the data types of vectors.
var VectorTypes = []string{"float32", "float16", "int8", "uint8"}

// VectorDimensionsMax is the maximum number of dimensions of a vector.
const VectorDimensionsMax = 4096

// vectorDistanceName is the name of the function VectorDistance(vector, vector [, exact [, options]]).
const vectorDistanceName = "VECTORDISTANCE"

// vectorOptions contains the options of VectorDistance that have numeric values. They apply to approximate indexes.
// Ilion computes exact results, so these options have no effect on the results.
var vectorOptions = map[string][2]float64{
	"searchListSizeMultiplier":      {1, 100},
	"quantizedVectorListMultiplier": {1, 100},
	"filterPriority":                {0, 1},
}

// vectorDistance binds a call of VectorDistance. The metric is the option distanceFunction, the metric of the path of
// an argument, or Cosine.
func (b *binder) vectorDistance(x *Call, args []node) (function, error) {
	m, err := b.metricOf(x)
	if err != nil {
		return nil, err
	}
	var constants [2][]float64
	for i := range constants {
		if c, ok := args[i].(constNode); ok {
			if constants[i], ok = appendVector(nil, c.value); !ok {
				return func(*env, []document.Value) document.Value { return undefined }, nil
			}
		}
	}
	return func(e *env, a []document.Value) document.Value {
		vectors := constants
		for i := range vectors {
			if vectors[i] != nil {
				continue
			}
			var ok bool
			if e.vectors[i], ok = appendVector(e.vectors[i][:0], a[i]); !ok {
				return undefined
			}
			vectors[i] = e.vectors[i]
		}
		if len(vectors[0]) != len(vectors[1]) {
			return undefined
		}
		return document.NumberValue(m.of(vectors[0], vectors[1]))
	}, nil
}

// metricOf returns the metric of a call and checks its optional arguments.
func (b *binder) metricOf(x *Call) (m Metric, err error) {
	for _, arg := range x.Args[:2] {
		if path, ok := b.itemPath(arg); ok {
			if m, ok = b.schema.metric(path); ok {
				break
			}
		}
	}
	for i, arg := range x.Args[2:] {
		n, err := b.expr(arg)
		if err != nil {
			return m, err
		}
		c, ok := n.(constNode)
		switch {
		case i == 0 && ok && (c.value.Kind() == document.Boolean || !c.value.IsDefined()):
		case i == 0:
			return m, b.fail(arg.at(), codeArguments, "The third argument of VectorDistance must be true or false.")
		case !ok || c.value.Kind() != document.Object:
			return m, b.fail(arg.at(), codeArguments, "The fourth argument of VectorDistance must be an object with options.")
		}
		for name, v := range c.value.Members() {
			limits, isNumber := vectorOptions[name]
			switch {
			case name == "distanceFunction":
				m, ok = ParseMetric(v.Str())
			case name == "dataType":
				ok = slices.Contains(VectorTypes, strings.ToLower(v.Str()))
			case isNumber:
				ok = v.Kind() == document.Number && v.Float() >= limits[0] && v.Float() <= limits[1]
			default:
				ok = false
			}
			if !ok {
				return m, b.fail(arg.at(), codeArguments, "The option %s of VectorDistance is unknown or has an invalid value: %v.",
					name, v)
			}
		}
	}
	return m, nil
}

// itemPath returns the path of an expression that is a stored property of the item.
func (b *binder) itemPath(e Expr) (path document.Path, ok bool) {
	for {
		m, isMember := e.(*Member)
		if x, isIndex := e.(*Index); isIndex {
			m, isMember = b.namedMember(x)
		}
		if !isMember {
			break
		}
		path = append(path, m.Name)
		e = m.Of
	}
	name, ok := e.(*Name)
	if !ok || len(path) == 0 {
		return nil, false
	}
	slices.Reverse(path)
	slot, _, ok := b.resolve(name.Name)
	return path, (ok && b.roots[slot] || !ok && b.isContainer(name.Name)) && !b.schema.IsComputed(path[0])
}

// vectorOrder reports whether a sort expression is a call of VectorDistance, and whether the most similar vectors are
// first in descending order. In Cosmos DB, a query cannot change this order.
func (b *binder) vectorOrder(e Expr) (descending, ok bool) {
	x, ok := e.(*Call)
	if !ok || x.UDF || !strings.EqualFold(x.Name, vectorDistanceName) {
		return false, false
	}
	m, err := b.metricOf(x)
	return m != Euclidean, err == nil
}

// appendVector appends the elements of a vector. ok is false if v is not an array of numbers, or is empty or too long.
func appendVector(b []float64, v document.Value) (_ []float64, ok bool) {
	if v.Kind() != document.Array {
		return b, false
	}
	for element := range v.Elements() {
		if element.Kind() != document.Number || len(b) == VectorDimensionsMax {
			return b, false
		}
		b = append(b, element.Float())
	}
	return b, len(b) > 0
}

// of returns the similarity of two vectors of the same length. The cosine similarity with a zero vector is NaN.
func (m Metric) of(x, y []float64) float64 {
	var product, xx, yy float64
	switch m {
	case Euclidean:
		for i := range x {
			d := x[i] - y[i]
			product += d * d
		}
		return math.Sqrt(product)
	case DotProduct:
		for i := range x {
			product += x[i] * y[i]
		}
		return product
	}
	for i := range x {
		product += x[i] * y[i]
		xx += x[i] * x[i]
		yy += y[i] * y[i]
	}
	return product / math.Sqrt(xx*yy)
}
