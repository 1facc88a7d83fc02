// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// similarityFactories returns the vector similarity functions. The result is usually between 0 and 1. The dot product
// of vectors that are longer than 1 may be negative.
func similarityFactories() []*factory {
	similarity := func(of vector.Similarity) *factory {
		name := "similarity_" + of.String()
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
						if of == vector.Cosine && (vector.Zero(a) || vector.Zero(b)) {
							return nil, dberr.Invalidf("Function system.%s doesn't support all-zero vectors.", name)
						}
						return fromFloat32(of.Of(a, b)), nil
					}}, nil
			}}
	}
	return []*factory{similarity(vector.Cosine), similarity(vector.Euclidean), similarity(vector.DotProduct)}
}
