// SPDX-License-Identifier: Apache-2.0

package fulltext

import (
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/spanish"
)

// Language determines how a text is split into terms. The zero Language is American English.
type Language byte

// language describes a Language.
type language struct {
	name string
	stem func(*snowballstem.Env) bool
	// elided holds the words that lose their last vowel before another word, such as l in l'avion. stop holds the words
	// that texts and keywords omit.
	elided, stop map[string]bool
}

// languages are the languages of Cosmos DB. As in Cosmos DB, only English has stop words.
var languages = [...]language{
	{name: "en-US", stem: english.Stem, stop: setOf(englishStopWords)},
	{name: "de-DE", stem: german.Stem},
	{name: "es-ES", stem: spanish.Stem},
	{name: "fr-FR", stem: french.Stem, elided: setOf("l d c j m n s t qu jusqu lorsqu puisqu quoiqu")},
	{name: "it-IT", stem: italian.Stem, elided: setOf("l un d c s m t v dell all dall nell sull quell")},
	{name: "pt-PT", stem: portuguese.Stem},
	{name: "pt-BR", stem: portuguese.Stem},
}

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// ParseLanguage returns the language with a name such as en-US, in any case. ok is false if the name is unknown.
func ParseLanguage(name string) (l Language, ok bool) {
	for i := range languages {
		if strings.EqualFold(languages[i].name, name) {
			return Language(i), true
		}
	}
	return 0, false
}

// String returns the name of the language.
func (l Language) String() string { return languages[l].name }

// Languages returns the names of all languages.
func Languages() []string {
	out := make([]string, len(languages))
	for i := range languages {
		out[i] = languages[i].name
	}
	return out
}
