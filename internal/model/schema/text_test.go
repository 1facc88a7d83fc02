// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"
)

// TestFormatDouble checks that doubles are formatted in the same way as in Java. Error messages and DESCRIBE contain
// such doubles.
func TestFormatDouble(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.01: "0.01", 0.001: "0.001", 1e-5: "1.0E-5", 6.71e-5: "6.71E-5", -0.1: "-0.1",
		1234567: "1234567.0", 12345678: "1.2345678E7",
	} {
		if got := FormatDouble(f); got != want {
			t.Errorf("FormatDouble(%g) = %s, want %s", f, got, want)
		}
	}
}

// TestSpeculation checks the canonical forms of speculative retry policies.
func TestSpeculation(t *testing.T) {
	for text, want := range map[string]string{
		"99PERCENTILE": "99p", "99.5p": "99.5p", "50.00ms": "50ms", "always": "ALWAYS", "NONE": "NEVER",
		"never":          "NEVER",
		"min(99p, 50ms)": "MIN(99p,50ms)", "MAX(50ms,99PERCENTILE)": "MAX(99p,50ms)",
		"100p": "", "0p": "", "min(1ms,2ms)": "", "5": "", "": "", "min(99p": "",
	} {
		got, err := speculation(&Property{Name: "speculative_retry", Value: text})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("speculation(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// FuzzParseType checks that no text makes the parser panic. It also checks that the text of a parsed type can be
// parsed again.
func FuzzParseType(f *testing.F) {
	for _, seed := range []string{
		"int", "frozen<list<int>>", `map<text, frozen<"a ""b">>`, "tuple<int, frozen<ks.u>>", "'a.b.C'", "'a''b'",
		"list<", "frozen<>", `"`,
		"map<int>", "a.b.c", "list<list<list<int>>>",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseType(text)
		if err != nil {
			return
		}
		once, _ := spec.MarshalText()
		again, err := ParseType(string(once))
		if err != nil {
			t.Fatalf("cannot decode %q: %v", once, err)
		}
		if twice, _ := again.MarshalText(); string(twice) != string(once) {
			t.Fatalf("%q becomes %q", once, twice)
		}
		if _, err := spec.Bind("ks", nil); err == nil {
			_ = spec.String()
		}
	})
}
