// SPDX-License-Identifier: Apache-2.0

package fulltext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DistanceMax is the maximum distance of a keyword.
const DistanceMax = 2

// Keyword is a word or a phrase to find in a text. A phrase is found if its words have the same relative positions in
// the text.
type Keyword struct {
	tokens []Token
	// distance is the maximum number of changed characters of each term.
	distance int
}

// Keyword returns the keyword for a text. The keyword also finds terms that differ in at most distance characters.
func (l Language) Keyword(text string, distance int) Keyword {
	return Keyword{l.Tokens(nil, text), distance}
}

// Terms returns the terms of the keyword, without their positions. exact reports whether each text with the keyword has
// all of these terms.
func (k *Keyword) Terms() (terms []string, exact bool) {
	for _, t := range k.tokens {
		terms = append(terms, t.Term)
	}
	return terms, k.distance == 0
}

// Distinct returns the keywords without repetitions and without keywords that consist of stop words.
func Distinct(keywords []Keyword) (out []Keyword) {
	known := map[string]bool{}
	for _, k := range keywords {
		var key strings.Builder
		fmt.Fprintf(&key, "%d", k.distance)
		for _, t := range k.tokens {
			fmt.Fprintf(&key, " %d %q", t.Position-k.tokens[0].Position, t.Term)
		}
		if len(k.tokens) > 0 && !known[key.String()] {
			known[key.String()] = true
			out = append(out, k)
		}
	}
	return out
}

// Matcher finds several keywords in a text. Matcher is safe for concurrent use.
type Matcher struct {
	keywords []Keyword
	// first holds the exact keywords by their first term. fuzzy holds the other keywords.
	first map[string][]int
	fuzzy []int
}

// NewMatcher returns a matcher.
func NewMatcher(keywords []Keyword) *Matcher {
	m := &Matcher{keywords: keywords, first: map[string][]int{}}
	for i := range keywords {
		k := &keywords[i]
		switch {
		case len(k.tokens) == 0: // only stop words: never found
		case k.distance > 0:
			m.fuzzy = append(m.fuzzy, i)
		default:
			m.first[k.tokens[0].Term] = append(m.first[k.tokens[0].Term], i)
		}
	}
	return m
}

// Len returns the number of keywords.
func (m *Matcher) Len() int { return len(m.keywords) }

// Fuzzy reports whether a keyword accepts other terms.
func (m *Matcher) Fuzzy() bool { return len(m.fuzzy) > 0 }

// Find calls found with the number of the keyword for each occurrence of a keyword in the tokens of a text. Find calls
// work with the number of steps of its work. Find ends if found or work returns false.
func (m *Matcher) Find(tokens []Token, work func(steps int) bool, found func(keyword int) bool) {
	for i := range tokens {
		for _, n := range m.first[tokens[i].Term] {
			if k := &m.keywords[n]; !work(len(k.tokens)) || k.at(tokens[i:]) && !found(n) {
				return
			}
		}
		for _, n := range m.fuzzy {
			k := &m.keywords[n]
			if !work(1+len(k.tokens)*len(tokens[i].Term)/8) || k.at(tokens[i:]) && !found(n) {
				return
			}
		}
		if !work(1) {
			return
		}
	}
}

// at reports whether the keyword is at the beginning of the tokens.
func (k *Keyword) at(tokens []Token) bool {
	if len(k.tokens) > len(tokens) {
		return false
	}
	for i, t := range k.tokens {
		if tokens[i].Position-tokens[0].Position != t.Position-k.tokens[0].Position ||
			!Near(tokens[i].Term, t.Term, k.distance) {
			return false
		}
	}
	return true
}

// Near reports whether at most distance insertions, deletions, and replacements of characters convert a term to another
// term. distance must not exceed DistanceMax.
func Near(a, b string, distance int) bool {
	if a == b {
		return true
	}
	if distance == 0 || len(a)-len(b) > distance*utf8.UTFMax || len(b)-len(a) > distance*utf8.UTFMax {
		return false
	}
	var x, y [TermBytesMax]rune
	n, m := runes(&x, a), runes(&y, b)
	if n-m > distance || m-n > distance {
		return false
	}
	// band[d] is the number of changes that convert the first i characters of a to the first i+d-distance characters
	// of b.
	const never = DistanceMax + 1
	var band, next [2*DistanceMax + 3]int
	width := 2*distance + 1
	for i := 0; i <= n; i++ {
		least := never
		for d := range width {
			j := i + d - distance
			switch best := never; {
			case j < 0 || j > m:
				next[d] = never
				continue
			case i == 0:
				next[d] = j
			default:
				if j > 0 {
					best = band[d] // replacement
					if x[i-1] != y[j-1] {
						best++
					}
				}
				if d+1 < width {
					best = min(best, band[d+1]+1) // deletion
				}
				if d > 0 {
					best = min(best, next[d-1]+1) // insertion
				}
				next[d] = best
			}
			least = min(least, next[d])
		}
		if least > distance {
			return false
		}
		band = next
	}
	return band[m-n+distance] <= distance
}

// runes copies the characters of a term and returns their number.
func runes(dst *[TermBytesMax]rune, term string) (n int) {
	for _, r := range term {
		dst[n] = r
		n++
	}
	return n
}
