// SPDX-License-Identifier: Apache-2.0

package parser_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// recordings is the folder of requests and responses that were recorded from Cassandra 4.0. The folder is next to the
// repository and may be missing.
const recordings = "../../../../../shared/conformance"

// laterGrammar holds statements that Cassandra 4.0 rejects as syntax errors. A later Cassandra version or only Ilion
// accepts these statements.
var laterGrammar = map[string]bool{
	"ALTER KEYSPACE IF EXISTS nosuch WITH durable_writes = false": true,
	"ALTER TABLE IF EXISTS nosuch ADD v int":                      true,
	"INSERT INTO t (k, a) VALUES (2, cast(5 AS tinyint))":         true,
	"EXPLAIN SELECT * FROM t":                                     true,
	"UPDATE t SET v = 12 WHERE k = 1 IF w CONTAINS 'a'":           true,
	"UPDATE t SET s = {1} WHERE k = 1 IF s CONTAINS 1":            true,
}

// semantic holds the prefixes of errors that the planner detects. These errors have the code of a syntax error.
var semantic = []string{
	"Invalid value for property", "Unknown property", "Invalid integer value", "Error setting type",
}

// recordedText is a string in a recording. A recording contains a plain string or a list of parts. A part may be a pair
// of a text and the number of repetitions.
type recordedText string

func (s *recordedText) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(s))
	}
	var v struct{ Parts []json.RawMessage }
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	var b strings.Builder
	for _, part := range v.Parts {
		var plain string
		if json.Unmarshal(part, &plain) == nil {
			b.WriteString(plain)
			continue
		}
		var run string
		var times int
		if err := json.Unmarshal(part, &[]any{&run, &times}); err != nil {
			return err
		}
		b.WriteString(strings.Repeat(run, times))
	}
	*s = recordedText(b.String())
	return nil
}

type recordedStep struct {
	CQL    recordedText
	Batch  struct{ Statements []struct{ CQL recordedText } }
	Expect struct {
		Kind, Code string
		Message    recordedText
	}
	Compare string
}

// TestRecordings parses every statement in the recordings. The parser must reject a statement if and only if Cassandra
// rejected it as a syntax error. If the error texts are comparable, they must be equal. The printed form of a parsed
// statement must parse to an equal tree.
func TestRecordings(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(recordings, "*.jsonl"))
	if len(files) == 0 {
		t.Skip("no recordings next to the repository")
	}
	seen := make(map[string]bool)
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var recorded struct{ Steps []recordedStep }
			if err := json.Unmarshal(lines.Bytes(), &recorded); err != nil {
				t.Fatal(err)
			}
			for _, step := range recorded.Steps {
				if cql := string(step.CQL); !seen[cql] && step.Expect.Kind != "ready" {
					seen[cql] = cql != ""
					checkRecorded(t, cql, step)
				}
			}
		}
		f.Close()
	}
	t.Logf("%d statements", len(seen))
}

func checkRecorded(t *testing.T, cql string, step recordedStep) {
	t.Helper()
	if cql == "" && step.Expect.Code != "0x2000" {
		return // neither a query nor a prepare request
	}
	message := string(step.Expect.Message)
	refused := step.Expect.Code == "0x2000" && !laterGrammar[cql]
	for _, s := range semantic {
		refused = refused && !strings.HasPrefix(message, s)
	}
	short := cql[:min(len(cql), 300)]
	tree, _, err := parser.Parse(cql)
	if !refused {
		if err != nil {
			t.Errorf("%s\n\trefused: %v\n\tCassandra: %s %s %s", short, err, step.Expect.Kind, step.Expect.Code,
				message)
			return
		}
		roundTrip(t, tree)
		return
	}
	syntax, ok := errors.AsType[*dberr.Syntax](err)
	switch {
	case !ok:
		t.Errorf("%s\n\tparsed as %v, %v\n\tCassandra: %s", short, tree, err, message)
	case step.Compare != "code_only" && syntax.Message != message:
		t.Errorf("%s\n\tgot:       %s\n\tCassandra: %s", short, syntax.Message, message)
	}
}

// roundTrip checks that the printed form of a tree parses to an equal tree.
func roundTrip(t *testing.T, tree parser.Statement) {
	t.Helper()
	text := tree.String()
	again, _, err := parser.Parse(text)
	if err != nil {
		t.Errorf("printed text does not parse: %v\n\t%s", err, text[:min(len(text), 1000)])
		return
	}
	// The running time of cmp.Diff is exponential in the depth of a tree, so cmp.Diff is used only to explain
	// differences.
	if !reflect.DeepEqual(tree, again) {
		t.Errorf("printed text parses to another tree\n\t%s\n%s", text[:min(len(text), 1000)], cmp.Diff(tree, again))
	}
}
