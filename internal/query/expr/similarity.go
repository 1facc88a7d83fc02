// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// similarityFactories makes the functions that say how near two vectors are, from 0 (or below, for dot products of
// vectors longer than 1) to 1.
func similarityFactories() []*factory {
	similarity := func(name string, of func(a, b []float32) float32) *factory {
		param := func(other int) parameter {
			return parameter{text: "vector<float, n>", like: other, vector: true, wants: "a float vector argument",
				takes: func(t *cqltype.Type) bool {
					return t.Kind == cqltype.Vector && t.Elems[0].Kind == cqltype.Float
				}}
		}
		return &factory{name: name, required: 2, params: []parameter{param(2), param(1)},
			build: func(name string, args []*cqltype.Type) (*function, error) {
				if args[0].Dimension != args[1].Dimension {
					return nil, dberr.Invalidf("All arguments must have the same vector dimensions")
				}
				return &function{name: name, args: args, result: tFloat, pure: true,
					call: func(_ *Bindings, values [][]byte) ([]byte, error) {
						var rooms [2][64]float32
						a, okA := args[0].Floats(rooms[0][:0], values[0])
						b, okB := args[1].Floats(rooms[1][:0], values[1])
						if !okA || !okB {
							return nil, nil
						}
						if name == similarityCosine && (zero(a) || zero(b)) {
							return nil, dberr.Invalidf("Function system.%s doesn't support all-zero vectors.", name)
						}
						return fromFloat32(of(a, b)), nil
					}}, nil
			}}
	}
	return []*factory{
		similarity(similarityCosine, cosine),
		similarity("similarity_euclidean", func(a, b []float32) float32 { return 1 / (1 + squaredDistance(a, b)) }),
		similarity("similarity_dot_product", func(a, b []float32) float32 { return (1 + dot(a, b)) / 2 }),
	}
}

const similarityCosine = "similarity_cosine"

func zero(v []float32) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

func dot(a, b []float32) float32 {
	var sum float32
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func squaredDistance(a, b []float32) float32 {
	var sum float32
	for i, x := range a {
		d := x - b[i]
		sum += d * d
	}
	return sum
}

func cosine(a, b []float32) float32 {
	c := float32(float64(dot(a, b)) / math.Sqrt(float64(dot(a, a))*float64(dot(b, b))))
	return (1 + c) / 2
}
