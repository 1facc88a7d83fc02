// SPDX-License-Identifier: Apache-2.0

package httpwire

// tokens marks the bytes that are allowed in names and methods.
var tokens = func() (t [256]bool) {
	for c := '0'; c <= 'z'; c++ {
		t[c] = c <= '9' || c >= 'a' || c >= 'A' && c <= 'Z'
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// isToken reports whether s is a token. A token is not empty and contains no spaces, control characters, or separators.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

// isText reports whether s is a valid header value. A valid value contains no control characters except tabs.
func isText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// EqualFold reports whether two strings are equal if the case of ASCII letters is ignored. Other letters must match
// exactly. For example, a Kelvin sign does not match the letter k.
func EqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x |= 0x20; x != y|0x20 || x < 'a' || x > 'z' {
			return false
		}
	}
	return true
}
