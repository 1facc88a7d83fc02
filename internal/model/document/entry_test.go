// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestForms checks that forms are ordered like values, and that values with the same exact form are equal.
func TestForms(t *testing.T) {
	long := strings.Repeat("a", FormBytesMax)
	values := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1", "-1", "1.5", "256", "-256"}),
		rapid.SampledFrom([]string{"1e300", "-1e-300", "[]", "[1]", "{}", `""`, `"a"`, `"a\u0000"`, `"\u0000"`}),
		rapid.SampledFrom([]string{`"` + long + `"`, `"` + long + `b"`}),
		rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) string { return fmt.Sprint(f) }),
		rapid.Map(rapid.StringMatching(`[a-c\x7f]{0,4}`), func(s string) string { return `"` + s + `"` }))
	rapid.Check(t, func(t *rapid.T) {
		a, b := View([]byte(values.Draw(t, "a"))), View([]byte(values.Draw(t, "b")))
		fa, fb := AppendForm(nil, a), AppendForm(nil, b)
		got, want := bytes.Compare(fa, fb), Compare(a, b)
		if got != 0 && got != want || got == 0 && want != 0 && IsExact(fa) {
			t.Fatalf("%v has the form %x, %v has %x", a, fa, b, fb)
		}
	})
	if AppendForm(nil, Value{}) != nil || IsExact(nil) {
		t.Error("Undefined has a form")
	}
}
