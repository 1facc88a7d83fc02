// SPDX-License-Identifier: Apache-2.0

package fulltext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// TermBytesMax is the maximum length of a term in bytes. Longer words are truncated.
const TermBytesMax = 255

// stemBytesMax is the maximum length of a word that is reduced to its stem.
const stemBytesMax = 64

// Token is a term of a text. Position is the number of the word in the text, including omitted words.
type Token struct {
	Term     string
	Position int
}

// Tokens appends the terms of a text: the words according to Unicode Standard Annex #29 in lower case, without stop
// words, and reduced to their stems. The terms may share the memory of the text.
func (l Language) Tokens(dst []Token, text string) []Token {
	a := analyzer{language: &languages[l], stemmer: snowballstem.NewEnv("")}
	position := 0
	for w := words.FromString(text); w.Next(); {
		word := w.Value()
		if !hasLetter(word) {
			continue
		}
		if term := a.term(a.word(word)); term != "" {
			dst = append(dst, Token{term, position})
		}
		position++
	}
	return dst
}

// TokensMax returns a number that the number of tokens of a text does not exceed.
func TokensMax(text string) (n int) {
	for i := range len(text) {
		if b := text[i]; b >= utf8.RuneSelf || lower(b) < 'a' && (b < '0' || '9' < b) || lower(b) > 'z' {
			n++ // Other bytes do not begin a word after a letter or a digit.
		}
	}
	return min(n, len(text)/2) + 1
}

// Has reports whether a text has a term.
func (l Language) Has(text, term string) bool {
	a := analyzer{language: &languages[l], stemmer: snowballstem.NewEnv("")}
	for w := words.FromString(text); w.Next(); {
		word := w.Value()
		// A stemmer keeps the first letter of an ASCII word, so most words are excluded without computing their stems.
		if first := word[0]; first < utf8.RuneSelf && term[0] < utf8.RuneSelf && a.elided == nil &&
			lower(first) != lower(term[0]) {
			continue
		}
		if hasLetter(word) && a.term(a.word(word)) == term {
			return true
		}
	}
	return false
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// analyzer converts words to terms.
type analyzer struct {
	*language
	stemmer *snowballstem.Env
}

// word returns the normal form of a word: lower case, composed characters, and no elided words before it.
func (a *analyzer) word(word string) string {
	if !isASCII(word) {
		word = norm.NFC.String(strings.ReplaceAll(word, "\u2019", "'"))
	}
	word = strings.ToLower(word)
	if a.elided != nil {
		if before, after, ok := strings.Cut(word, "'"); ok && after != "" && a.elided[before] {
			word = after
		}
	}
	return word
}

// term returns the term of a word, or "" for a stop word.
func (a *analyzer) term(word string) string {
	switch {
	case a.stop[word]:
		return ""
	case len(word) > TermBytesMax:
		end := TermBytesMax
		for !utf8.RuneStart(word[end]) {
			end--
		}
		return word[:end]
	case len(word) > stemBytesMax:
		return word
	}
	a.stemmer.SetCurrent(word)
	a.language.stem(a.stemmer)
	return a.stemmer.Current()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hasLetter reports whether a segment of a text contains a letter or a digit and is therefore a word.
func hasLetter(segment string) bool {
	for _, r := range segment {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
	}
	return false
}
