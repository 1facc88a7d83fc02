// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"errors"
	"math"
	"strings"
)

// Similarity is a measure of the similarity of two vectors.
type Similarity uint8

// These are the similarities. The option similarity_function specifies a similarity by its name.
const (
	Cosine Similarity = iota
	DotProduct
	Euclidean
)

var similarityNames = [...]string{"cosine", "dot_product", "euclidean"}

// String returns the name in lower case.
func (s Similarity) String() string { return similarityNames[s] }

// Parse returns the similarity with the given name. The case of the name does not matter. ok is false if the name is
// unknown.
func Parse(name string) (s Similarity, ok bool) {
	for i, known := range similarityNames {
		if strings.EqualFold(name, known) {
			return Similarity(i), true
		}
	}
	return 0, false
}

// Of returns the similarity of two vectors of the same dimension. It is between 0 and 1, except for dot products of
// vectors longer than 1. The cosine similarity with a zero vector is NaN.
func (s Similarity) Of(a, b []float32) float32 {
	switch s {
	case DotProduct:
		return (1 + dot(a, b)) / 2
	case Euclidean:
		return 1 / (1 + squaredDistance(a, b))
	}
	c := float32(float64(dot(a, b)) / math.Sqrt(float64(dot(a, a))*float64(dot(b, b))))
	return (1 + c) / 2
}

// These are the errors of Check.
var (
	ErrInfinite = errors.New("a vector whose elements are not all finite cannot be indexed or searched for")
	ErrZero     = errors.New("a zero vector has no cosine similarity: it cannot be indexed or searched for")
)

// Check returns an error if the similarity does not support a vector in an index or as a search target.
func (s Similarity) Check(v []float32) error {
	for _, x := range v {
		if x-x != 0 {
			return ErrInfinite
		}
	}
	if s == Cosine && Zero(v) {
		return ErrZero
	}
	return nil
}

// Zero reports whether all elements are zero.
func Zero(v []float32) bool {
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
