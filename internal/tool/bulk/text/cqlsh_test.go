// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

var (
	cqlsh  = text.Dialect{Delimiter: ',', Quote: '"', Escape: '\\', Cqlsh: true}
	dsbulk = text.Dialect{Delimiter: ',', Quote: '"', Escape: '\\'}
)

// TestCqlshFile checks that the output of COPY TO in cqlsh is read byte for byte. testdata/cqlsh.py created
// testdata/cqlsh.csv with the modules of cqlsh. testdata/cqlsh.json contains the exported texts, one per line.
func TestCqlshFile(t *testing.T) {
	file, err := os.ReadFile("testdata/cqlsh.csv")
	if err != nil {
		t.Fatal(err)
	}
	texts, err := os.ReadFile("testdata/cqlsh.json")
	if err != nil {
		t.Fatal(err)
	}
	quotes := cqlsh.Quotes()
	rows := strings.Split(strings.TrimSuffix(string(texts), "\n"), "\n")
	for i, line := range strings.Split(strings.TrimSuffix(string(file), "\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		var want string
		if err := json.Unmarshal([]byte(rows[i]), &want); err != nil {
			t.Fatal(err)
		}
		if !quotes.Feed([]byte(line + "\n")) {
			t.Errorf("line %d, %q: the record continues after the line", i+1, line)
		}
		fields, err := cqlsh.Fields(nil, line)
		if err != nil || len(fields) != 3 || fields[0].Text != "1" || fields[2].Text != "2" {
			t.Errorf("line %d, %q: %+v, %v", i+1, line, fields, err)
			continue
		}
		if got := fields[1].Text; got != want {
			t.Errorf("line %d, %q: got %q, want %q", i+1, line, got, want)
		}
	}
	if len(rows) < 20 || bytes.Count(file, []byte("\n")) != len(rows) {
		t.Errorf("there are %d rows", len(rows))
	}
}

// TestCqlshFields checks cases that are not in the file of TestCqlshFile. These are nulls, and fields that cqlsh does
// not write.
func TestCqlshFields(t *testing.T) {
	for record, want := range map[string][]text.Field{
		`1,`:        {{Text: "1"}, {Null: true}},
		`"",\"`:     {{Text: ""}, {Text: `"`}},
		`a"b,c\`:    {{Text: `a"b`}, {Text: `c\`}},
		`\\\\q,\\x`: {{Text: `\q`}, {Text: `\x`}},
	} {
		got, err := cqlsh.Fields(nil, record)
		if err != nil || len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%q: %+v, %v, want %+v", record, got, err, want)
		}
	}
	for _, bad := range []string{`"a`, `"a"b`, `"a\"`} {
		if got, err := cqlsh.Fields(nil, bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestDsbulkFields checks that fields in the default format of DSBulk are read correctly. DSBulk escapes quotes and
// backslashes only within quotes.
func TestDsbulkFields(t *testing.T) {
	for record, want := range map[string]string{
		`a\b`: `a\b`, `"a,b"`: `a,b`, `"a \"b\" c"`: `a "b" c`, `"a\\b,c"`: `a\b,c`, `"{\"a\":1}"`: `{"a":1}`,
		`"\\"`: `\`,
	} {
		got, err := dsbulk.Fields(nil, record)
		if err != nil || len(got) != 1 || got[0].Text != want {
			t.Errorf("%q: %+v, %v, want %q", record, got, err, want)
		}
	}
}
