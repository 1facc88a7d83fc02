// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestAnalyze checks that the analysis options of an index have the same effect as in Cassandra.
func TestAnalyze(t *testing.T) {
	lower, nfc, ascii := schema.Analysis{Lower: true}, schema.Analysis{Normalize: true}, schema.Analysis{ASCII: true}
	all := schema.Analysis{Lower: true, Normalize: true, ASCII: true}
	for _, tc := range []struct {
		a          schema.Analysis
		text, want string
	}{
		{lower, "HeLLo ÄÖ", "hello äö"},
		{lower, "İI", "i̇i"},
		{lower, "ΟΔΟΣ ΣΑΣ.", "οδος σας."},
		{nfc, "Cafe\u0301", "Café"},
		{nfc, "Café", "Café"},
		{ascii, "Café Straße Æ ﬁ Łódź ½", "Cafe Strasse AE fi Lodz ½"},
		{ascii, "Cafe\u0301", "Cafe\u0301"},
		{all, "CAFE\u0301", "cafe"},
		{all, "\xff\xfeÀ", "\xff\xfea"},
		{schema.Analysis{}, "ÄB", "ÄB"},
		{all, "", ""},
	} {
		if got := string(Analyze(tc.a, []byte(tc.text))); got != tc.want {
			t.Errorf("%+v of %q is %q, want %q", tc.a, tc.text, got, tc.want)
		}
	}
}

// TestIndexForms checks that the forms in a storage-attached index have the same order as the values. The truncated
// forms of different values may be equal but must not have the wrong order.
func TestIndexForms(t *testing.T) {
	column := &schema.Column{Name: "c", Type: cqltype.Native(cqltype.Int)}
	ix := &schema.Index{Column: "c", Kind: schema.CustomKind}
	form := FormOf(column, ix)
	var last []byte
	for _, n := range []int64{-1 << 31, -256, -1, 0, 1, 255, 256, 1<<31 - 1} {
		v, _ := column.Type.Kind.FromInt64(n)
		now := form.Append(nil, v)
		if bytes.Compare(last, now) >= 0 {
			t.Errorf("%d is not behind the one before", n)
		}
		last = now
	}
	column.Type = cqltype.Native(cqltype.Text)
	form = FormOf(column, ix)
	long := strings.Repeat("x", 2*IndexFormMax)
	a, b, c := form.Append(nil, []byte(long)), form.Append(nil, []byte(long+"y")), form.Append(nil, []byte("y"))
	if len(a) != IndexFormMax || !bytes.Equal(a, b) || bytes.Compare(b, c) >= 0 {
		t.Errorf("long texts have forms of %d and %d bytes", len(a), len(b))
	}
	if legacy := FormOf(column, &schema.Index{Column: "c", Kind: "COMPOSITES"}); legacy.Ordered() ||
		string(legacy.Append(nil, []byte("a"))) != "a" {
		t.Error("legacy indexes have values as they are")
	}
}
