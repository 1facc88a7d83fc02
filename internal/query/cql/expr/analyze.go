// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// lower converts letters to lower case in the same way as Java. A capital sigma at the end of a word is converted to a
// final sigma. A capital I with a dot keeps the dot.
func lower(text []byte) []byte {
	if isASCII(text) {
		return bytes.ToLower(text)
	}
	out := make([]byte, 0, len(text)+2)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(out, text[i])
		case r == 'İ':
			out = append(out, "i̇"...)
		case r == 'Σ' && casedBefore(text[:i]) && !casedAfter(text[i+n:]):
			out = append(out, "ς"...)
		default:
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
		i += n
	}
	return out
}

// casedBefore reports whether a text ends with a cased letter. casedAfter reports whether a text begins with a cased
// letter. Both functions skip case-ignorable characters, such as marks and apostrophes.
func casedBefore(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeLastRune(text)
		if !ignored(r) {
			return hasCase(r)
		}
		text = text[:len(text)-n]
	}
	return false
}

func casedAfter(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if !ignored(r) {
			return hasCase(r)
		}
		text = text[n:]
	}
	return false
}

func hasCase(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }

func ignored(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’", r)
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// normalize converts a text to Unicode normalization form C (NFC).
func normalize(text []byte) []byte { return norm.NFC.Bytes(text) }
