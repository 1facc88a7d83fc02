// SPDX-License-Identifier: Apache-2.0

package document

import "testing"

// TestPaths checks which key paths are accepted and which values they select. It also checks that formatting is the
// inverse of parsing.
func TestPaths(t *testing.T) {
	doc := mustParse(t, `{"a":1,"b":{"c":"x","d e":{"/":true}},"level' 1*()":{"le/vel2":null},"é":2,"o":{},"arr":[1]}`)
	for _, c := range []struct{ path, printed, value, key string }{
		{"/a", "/a", "1", "1"},
		{"/b/c", "/b/c", `"x"`, `"x"`},
		{`/b/"d e"/"/"`, `/b/"d e"/"/"`, "true", "true"},
		{`/"level' 1*()"/"le/vel2"`, `/"level' 1*()"/"le/vel2"`, "null", "null"},
		{`/'a'`, "/a", "1", "1"},
		{"/é", "/é", "2", "2"},
		{`/"\u0061"`, "/a", "1", "1"},
		{"/o", "/o", "{}", "undefined"},
		{"/arr", "/arr", "[1]", "undefined"},
		{"/arr/0", "/arr/0", "undefined", "undefined"},
		{"/none/x", "/none/x", "undefined", "undefined"},
	} {
		p, err := ParsePath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if p.String() != c.printed || p.Of(doc).String() != c.value || p.KeyOf(doc).String() != c.key {
			t.Errorf("%s: %s is %v, as a key %v", c.path, p, p.Of(doc), p.KeyOf(doc))
		}
	}
	for _, bad := range []string{"", "a", "/", "//a", "/a/", "/a b", "/a-b", `/"a`, `/"a"b`, "/a/*", "/a/?"} {
		if p, err := ParsePath(bad); err == nil {
			t.Errorf("%s was accepted as %v", bad, p)
		}
	}
}

// TestIndexPaths checks which paths are accepted in indexing policies, and which properties they include.
func TestIndexPaths(t *testing.T) {
	property := []Step{{Name: "a"}, {Elements: true}, {Name: "b c"}}
	for _, c := range []struct {
		path, printed string
		includes      bool
	}{
		{"/*", "/*", true},
		{"/", "/*", true},
		{"/a/*", "/a/*", true},
		{"/a/?", "/a/?", false},
		{`/a/[]/"b c"/?`, `/a/[]/"b c"/?`, true},
		{`/a/[0]/"b c"/*`, `/a/[]/"b c"/*`, true},
		{`/a/[]/?`, `/a/[]/?`, false},
		{`/"_etag"/?`, `/_etag/?`, false},
	} {
		p, err := ParseIndexPath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if p.String() != c.printed || p.Includes(property) != c.includes {
			t.Errorf("%s: %s, includes %v", c.path, p, p.Includes(property))
		}
	}
	for _, bad := range []string{"", "//", "/?", "/a", "/a/*/b/?", "/a/?/*", "a/*", "/a b/?", "/[x]/?"} {
		if p, err := ParseIndexPath(bad); err == nil {
			t.Errorf("%s was accepted as %v", bad, p)
		}
	}
}
