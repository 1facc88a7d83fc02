// SPDX-License-Identifier: Apache-2.0

package fulltext

import "math"

// Parameters of BM25: the effect of repeated keywords, and the effect of the length of a text.
const (
	saturation = 1.2
	lengths    = 0.75
)

// Statistics describes the texts of all documents.
type Statistics struct {
	// Documents is the number of documents. Words is the number of their terms.
	Documents, Words float64
	// Hits holds the number of documents with each keyword.
	Hits []float64
}

// Score returns the relevance of a text according to BM25. counts holds the number of occurrences of each keyword in
// the text, and words is the number of the terms of the text. A keyword without statistics has no effect.
func (s *Statistics) Score(counts []int, words int) (score float64) {
	average := 1.0
	if s.Documents > 0 && s.Words > 0 {
		average = s.Words / s.Documents
	}
	norm := saturation * (1 - lengths + lengths*float64(words)/average)
	for i, n := range counts {
		if n == 0 || i >= len(s.Hits) {
			continue
		}
		hits := min(s.Hits[i], s.Documents) // The counts may be from different times.
		rarity := math.Log(1 + (s.Documents-hits+0.5)/(hits+0.5))
		score += rarity * float64(n) * (saturation + 1) / (float64(n) + norm)
	}
	return score
}
