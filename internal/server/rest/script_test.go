// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/url"
	"strings"
	"testing"
)

// TestLogHeader checks that the log of a script has the encoding of encodeURIComponent. The SDK tests for Python,
// JavaScript, Java, and .NET expect this encoding. Entries must be separated by line feeds. A log that is too long
// must be truncated after a complete character.
func TestLogHeader(t *testing.T) {
	for log, want := range map[string]string{
		"The value of x is 1.\n":    "The%20value%20of%20x%20is%201.",
		"a\nb\n":                    "a%0Ab",
		"a\n\n":                     "a%0A",
		"\n":                        "",
		"1+1=2 & $a@b:c;,/?\n":      "1%2B1%3D2%20%26%20%24a%40b%3Ac%3B%2C%2F%3F",
		"-_.!~*'()%\n":              "-_.!~*'()%25",
		"ü\u20ac\U0001f600\r\xff\n": "%C3%BC%E2%82%AC%F0%9F%98%80%0D%FF",
	} {
		if got := logHeader(log); got != want {
			t.Errorf("%q: %s, want %s", log, got, want)
		}
	}
	long := strings.Repeat("a", 5) + strings.Repeat("\u20ac", 3000) + "\n"
	got := logHeader(long)
	text, err := url.PathUnescape(got)
	if err != nil || len(got) > logHeaderMax || len(got) < logHeaderMax-9 || !strings.HasPrefix(long, text) ||
		(len(text)-5)%3 != 0 {
		t.Errorf("%d bytes that stand for %d, %v", len(got), len(text), err)
	}
}
