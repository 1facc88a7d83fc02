// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// recordings is the folder of requests and responses that were recorded from Cassandra 4.0. The folder is next to the
// repository and may be missing.
const recordings = "../../../../../shared/conformance"

type recordedStep struct {
	Session  int
	Op       string
	CQL      any
	Keyspace string
	Compare  string
	Volatile []string
	PageSize int `json:"page_size"`
	Expect   struct {
		Kind, Code                     string
		Message                        any
		Already                        []string
		Change, Target, Keyspace, Name string
		Warnings                       []string
		Columns                        [][2]string
		Rows                           [][]any
	}
}

// justified lists parts of statements for which Ilion intentionally differs from Cassandra.
var justified = []string{
	"MATERIALIZED VIEW", "FUNCTION ", "AGGREGATE ", // not supported
	"ALTER KEYSPACE IF EXISTS", "ALTER TABLE IF EXISTS", // supported in later versions
	"'datacenter1' : 2 } AND DURABLE_WRITES = false", // a higher replication factor does not require a repair
	// Ilion accepts data centers without nodes, so the keyspace exists when the next statement is executed.
	"'nosuchdc'", "'nonexistentdc'", "KEYSPACE s_ddl_d WITH durable_writes = 'x'",
	// The recorded Cassandra version permits tables with both counters and other columns.
	"ALTER TABLE t ADD v int", "ALTER TABLE plain ADD c counter",
	"CLUSTERING ORDER BY (nosuch DESC)", "CLUSTERING ORDER BY (column3 DESC)", // Ilion also returns a warning
}

var isSchemaStatement = regexp.MustCompile(`(?i)^\s*(create|alter|drop|desc|describe)\s`)

// TestConformance replays schema statements that were recorded from Cassandra 4.0. It compares results, errors,
// warnings, and the output of DESCRIBE.
func TestConformance(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(recordings, "*.jsonl"))
	if len(files) == 0 {
		t.Skip("no recordings beside the repository")
	}
	compared := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var test struct {
				Test  string
				Steps []recordedStep
			}
			if err := json.Unmarshal(lines.Bytes(), &test); err != nil {
				t.Fatal(err)
			}
			compared += replay(t, test.Test, test.Steps)
		}
		f.Close()
	}
	t.Logf("compared %d statements", compared)
	if compared < 1000 {
		t.Errorf("compared only %d statements", compared)
	}
}

// isNewer reports whether a row of DESCRIBE TABLES contains a table that Cassandra 4.0 does not have.
func isNewer(row [][]byte) bool {
	return len(row) == 3 && slices.Contains([]string{"cidr_groups", "cidr_permissions", "identity_to_role"},
		string(row[2]))
}

func replay(t *testing.T, name string, steps []recordedStep) (compared int) {
	if strings.Contains(name, "permissions") {
		return 0
	}
	e := newTestExecutor()
	views := false // results that depend on materialized views differ
	for i, step := range steps {
		cql, ok := step.CQL.(string)
		if !ok || step.Op != "query" || !isSchemaStatement.MatchString(cql) {
			continue
		}
		if message, _ := step.Expect.Message.(string); strings.HasPrefix(message, "User ") {
			continue
		}
		stmt, _, err := parser.Parse(cql)
		views = views || isView(stmt)
		skip := step.Compare == "skip" || views
		for _, part := range justified {
			skip = skip || strings.Contains(cql, part)
		}
		got := map[string]any{}
		if d, ok := stmt.(*parser.Describe); ok && err == nil {
			var rows *Rows
			if rows, err = e.Describe(d, step.Keyspace); err == nil {
				rows.Rows = slices.DeleteFunc(rows.Rows, isNewer)
				got["rows"] = texts(rows, step.Volatile)
			}
		} else if err == nil && (isUnsupported(stmt) || !Handles(stmt)) {
			continue
		} else if err == nil {
			var r Result
			r, err = e.Execute(context.Background(), stmt, step.Keyspace, Actor{}, nil)
			if r.Change != nil {
				got["change"] = []string{r.Change.Change, r.Change.Target, r.Change.Keyspace, r.Change.Name}
			}
			if len(r.Warnings) > 0 {
				got["warnings"] = r.Warnings
			}
		}
		if err != nil {
			got["error"] = describeError(err, step.Compare == "code_only")
		}
		if skip || step.PageSize > 0 {
			continue
		}
		compared++
		if diff := cmp.Diff(expected(&step), got); diff != "" {
			t.Errorf("%s step %d: %s (-want +got):\n%s", name, i, cql, diff)
		}
	}
	return compared
}

func isView(stmt parser.Statement) bool {
	_, ok := stmt.(*parser.CreateView)
	return ok
}

func expected(step *recordedStep) map[string]any {
	want := map[string]any{}
	x := &step.Expect
	if len(x.Warnings) > 0 {
		want["warnings"] = x.Warnings
	}
	switch x.Kind {
	case "schema_change":
		want["change"] = []string{x.Change, x.Target, x.Keyspace, x.Name}
	case "error":
		message, _ := x.Message.(string)
		if step.Compare == "code_only" {
			message = ""
		}
		code := x.Code
		if code == "0x0000" {
			code = "0x2300"
		}
		want["error"] = append([]string{code, message}, x.Already...)
	case "rows":
		rows := [][]string{}
		for _, r := range x.Rows {
			var texts []string
			for c, v := range r {
				text, _ := v.(string)
				b, _ := hex.DecodeString(text)
				if volatile(step.Volatile, x.Columns[c][0]) {
					b = nil
				}
				texts = append(texts, string(b))
			}
			rows = append(rows, texts)
		}
		want["rows"] = rows
	}
	return want
}

func volatile(parts []string, column string) bool {
	for _, p := range parts {
		if p == "rows" || p == "col:"+column {
			return true
		}
	}
	return false
}

func texts(rows *Rows, parts []string) [][]string {
	out := [][]string{}
	for _, r := range rows.Rows {
		var texts []string
		for c, v := range r {
			if volatile(parts, rows.Columns[c].Name) {
				v = nil
			}
			texts = append(texts, string(v))
		}
		out = append(out, texts)
	}
	return out
}

// describeError returns an error code and an error text in the format of the recordings.
func describeError(err error, codeOnly bool) []string {
	var (
		syntax       *dberr.Syntax
		invalid      *dberr.Invalid
		config       *dberr.Config
		unauthorized *dberr.Unauthorized
		exists       *dberr.AlreadyExists
	)
	code, extra := "0x0000", []string(nil)
	switch {
	case errors.As(err, &syntax):
		code = "0x2000"
	case errors.As(err, &invalid):
		code = "0x2200"
	case errors.As(err, &config):
		code = "0x2300"
	case errors.As(err, &unauthorized):
		code = "0x2100"
	case errors.As(err, &exists):
		code, extra = "0x2400", []string{exists.Keyspace, exists.Table}
	}
	message := err.Error()
	if codeOnly {
		message = ""
	}
	return append([]string{code, message}, extra...)
}
