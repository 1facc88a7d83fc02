// SPDX-License-Identifier: Apache-2.0

package fulltext

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// terms returns the terms of a text and their positions as text.
func terms(l Language, text string) string {
	var out []string
	last := -1
	for _, t := range l.Tokens(nil, text) {
		for ; last < t.Position-1; last++ {
			out = append(out, "_")
		}
		out, last = append(out, t.Term), t.Position
	}
	return strings.Join(out, " ")
}

// TestTokens checks the terms of texts in several languages. An underscore is an omitted word.
func TestTokens(t *testing.T) {
	for _, c := range [][3]string{
		{"en-us", "The Red BICYCLES, running & red!", "_ red bicycl run red"},
		{"en-US", "Don\u2019t use the mountain's bike", "_ _ _ mountain bike"},
		{"en-US", "3.5 volts, e-mail 42", "3.5 volt _ mail 42"},
		{"en-US", "\u4e2d\u6587 \U0001F6B2 cafe\u0301", "\u4e2d \u6587 caf\u00e9"},
		{"de-DE", "Die Häuser der Straße", "die haus der strass"},
		{"fr-FR", "L'avion et l\u2019aéroport", "avion et aéroport"},
		{"it-IT", "dell'acqua", "acqua"},
		{"es-ES", "las bicicletas rojas", "las biciclet roj"},
		{"pt-BR", "as bicicletas vermelhas", "as biciclet vermelh"},
		{"pt-PT", "", ""},
		{"en-US", " \t\n", ""},
		{"en-US", strings.Repeat("Ab", 200), strings.Repeat("ab", 127) + "a"},
		{"en-US", strings.Repeat("ß", 200), strings.Repeat("ß", 127)},
	} {
		l, ok := ParseLanguage(c[0])
		if !ok || !strings.EqualFold(l.String(), c[0]) {
			t.Fatal(c[0], l)
		}
		if got := terms(l, c[1]); got != c[2] {
			t.Errorf("%s: the terms of %.40q are %q, want %q", l, c[1], got, c[2])
		}
	}
	if _, ok := ParseLanguage("tlh"); ok || len(Languages()) != 7 {
		t.Error("the list of languages differs")
	}
}

// TestHas checks that Has agrees with Tokens for random texts in all languages.
func TestHas(t *testing.T) {
	texts := rapid.StringOf(rapid.SampledFrom([]rune("aAeizsSyYnlLd'\u2019 éäßÉ3.-\u4e2d")))
	rapid.Check(t, func(t *rapid.T) {
		l := Language(rapid.IntRange(0, len(languages)-1).Draw(t, "language"))
		text, other := texts.Draw(t, "text"), texts.Draw(t, "other")
		has := map[string]bool{}
		if n := len(l.Tokens(nil, text)); n > TokensMax(text) {
			t.Fatalf("%q has %d tokens, more than %d", text, n, TokensMax(text))
		}
		for _, token := range l.Tokens(nil, text) {
			has[token.Term] = true
			if !l.Has(text, token.Term) {
				t.Fatalf("%s: %q lacks its term %q", l, text, token.Term)
			}
			if len(token.Term) == 0 || len(token.Term) > TermBytesMax {
				t.Fatalf("the term has %d bytes", len(token.Term))
			}
		}
		for _, token := range l.Tokens(nil, other) {
			if got := l.Has(text, token.Term); got != has[token.Term] {
				t.Fatalf("%s: %q has the term %q: %t", l, text, token.Term, got)
			}
		}
	})
}

// plainDistance returns the Levenshtein distance of two strings.
func plainDistance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		last := row[0]
		row[0] = i + 1
		for j := range b {
			n := last
			if a[i] != b[j] {
				n++
			}
			last, row[j+1] = row[j+1], min(n, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// TestNear compares Near with the complete algorithm.
func TestNear(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 9, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b, d := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, DistanceMax).Draw(t, "d")
		if got, want := Near(a, b, d), plainDistance([]rune(a), []rune(b)) <= d; got != want {
			t.Fatalf("Near(%q, %q, %d) = %t", a, b, d, got)
		}
	})
}

// TestFind checks which keywords are found, and how often.
func TestFind(t *testing.T) {
	text := Language(0).Tokens(nil, "Red bicycles and red mountain bicycle. A state of the art bycycle, red")
	for _, c := range []struct {
		keyword  string
		distance int
		want     int
	}{
		{"red", 0, 3}, {"Bicycle", 0, 2}, {"red bicycle", 0, 1}, {"mountain bicycles", 0, 1}, {"bicycle red", 0, 0},
		{"state of the art", 0, 1}, {"state of art", 0, 0}, {"state art", 0, 0}, {"the", 0, 0}, {"", 0, 0},
		{"bicicle", 0, 0}, {"bicicle", 1, 2}, {"bicicle", 2, 3}, {"rad bicycle", 1, 1}, {"reds", 0, 3}, {"blue", 1, 0},
	} {
		got := 0
		m := NewMatcher([]Keyword{Language(0).Keyword(c.keyword, c.distance)})
		m.Find(text, func(int) bool { return true }, func(int) bool { got++; return true })
		if got != c.want || m.Len() != 1 || m.Fuzzy() != (c.distance > 0) {
			t.Errorf("%q (%d) was found %d times, want %d", c.keyword, c.distance, got, c.want)
		}
	}
	steps := 0
	m := NewMatcher([]Keyword{Language(0).Keyword("red", 0)})
	m.Find(text, func(n int) bool { steps += n; return false }, func(int) bool { t.Error("found"); return true })
	if steps == 0 {
		t.Error("the work was not counted")
	}
}

// TestScore checks BM25 with known values.
func TestScore(t *testing.T) {
	s := Statistics{Documents: 4, Words: 40, Hits: []float64{1, 4}}
	if got, want := s.Score([]int{1, 0}, 10), math.Log(1+3.5/1.5)*2.2/2.2; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	if a, b := s.Score([]int{1, 0}, 10), s.Score([]int{0, 1}, 10); a <= b {
		t.Errorf("a rare keyword has the score %v, and a frequent keyword has %v", a, b)
	}
	if a, b := s.Score([]int{1, 0}, 5), s.Score([]int{1, 0}, 50); a <= b {
		t.Errorf("a short text has the score %v, and a long text has %v", a, b)
	}
	if a, b := s.Score([]int{2, 0}, 10), s.Score([]int{1, 0}, 10); a <= b {
		t.Errorf("two occurrences have the score %v, and one has %v", a, b)
	}
	for _, s := range []Statistics{{}, {Documents: 1, Words: 1, Hits: []float64{9}}} {
		if got := s.Score([]int{1, 1}, 1); math.IsNaN(got) || math.IsInf(got, 0) || got < 0 {
			t.Errorf("%v: %v", s, got)
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	text := strings.Repeat("The quick brown foxes were jumping over several lazy dogs while mountain bicycles rolled past. ", 11)
	b.SetBytes(int64(len(text)))
	var dst []Token
	for b.Loop() {
		dst = Language(0).Tokens(dst[:0], text)
	}
}

func BenchmarkHas(b *testing.B) {
	text := strings.Repeat("The quick brown foxes were jumping over several lazy dogs while mountain bicycles rolled past. ", 11)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Language(0).Has(text, "elephant")
	}
}
