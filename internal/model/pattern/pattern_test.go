// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"errors"
	"strings"
	"testing"
)

// TestBounds checks that an expression with a large program is rejected before it is compiled. Other expressions must
// match as in package regexp.
func TestBounds(t *testing.T) {
	for _, text := range []string{
		"(x?){1000}" + strings.Repeat("(y?){1000}", 30),
		"((((a|b|c|d){10}){10}){10}){1}" + strings.Repeat("z{1000}", 30),
		strings.Repeat("[a-z]{900}", 40), "(" + strings.Repeat("abcdefgh", 400) + "){1000}",
	} {
		if _, err := Compile(text); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	for _, text := range []string{"a+b*", "^[a-z0-9._%+-]+@[a-z0-9.-]+$", "(x?){1000}", "(?i)größe", "\\p{L}+"} {
		p, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if p.Cost(1000) < 1000/4 {
			t.Errorf("%s: a match of 1,000 bytes costs %d", text, p.Cost(1000))
		}
	}
	if _, err := Compile("(a"); err == nil || errors.Is(err, ErrTooLarge) {
		t.Errorf("a malformed expression: %v", err)
	}
}
