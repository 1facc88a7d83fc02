// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// recorded is a test case of the conformance recordings.
type recorded struct {
	Test  string         `json:"test"`
	Needs []string       `json:"needs"`
	Steps []recordedStep `json:"steps"`
}

type recordedStep struct {
	Session  int               `json:"session"`
	Op       string            `json:"op"`
	CQL      json.RawMessage   `json:"cql"`
	Prepared int               `json:"prepared"`
	Keyspace string            `json:"keyspace"`
	Values   json.RawMessage   `json:"values"`
	Types    []string          `json:"types"`
	CL       string            `json:"cl"`
	PageSize *int              `json:"page_size"`
	Paging   string            `json:"paging"`
	PageFrom int               `json:"page_from"`
	SleepMS  int64             `json:"sleep_ms"`
	Stamp    *int64            `json:"timestamp"`
	Compare  string            `json:"compare"`
	Volatile []string          `json:"volatile"`
	Expect   recordedExpect    `json:"expect"`
	Batch    json.RawMessage   `json:"batch"`
	Named    map[string]string `json:"named"`
}

type recordedExpect struct {
	Kind      string          `json:"kind"`
	Columns   [][2]string     `json:"columns"`
	Rows      [][]any         `json:"rows"`
	More      bool            `json:"more_pages"`
	Code      string          `json:"code"`
	Message   json.RawMessage `json:"message"`
	BindTypes [][2]string     `json:"bind_types"`
	PKIndexes []uint16        `json:"pk_indexes"`
	Warnings  []string        `json:"warnings"`
}

func joined(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		var b strings.Builder
		for _, p := range v["parts"].([]any) {
			if s, ok := p.(string); ok {
				b.WriteString(s)
			} else {
				pair := p.([]any)
				b.WriteString(strings.Repeat(pair[0].(string), int(pair[1].(float64))))
			}
		}
		return b.String()
	}
	return ""
}

func rawText(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	return joined(v)
}

func wireName(t *cqltype.Type) string {
	switch t.Kind {
	case cqltype.List:
		return "list<" + wireName(t.Elems[0]) + ">"
	case cqltype.Set:
		return "set<" + wireName(t.Elems[0]) + ">"
	case cqltype.Map:
		return "map<" + wireName(t.Elems[0]) + ", " + wireName(t.Elems[1]) + ">"
	case cqltype.Tuple:
		var parts []string
		for _, e := range t.Elems {
			parts = append(parts, wireName(e))
		}
		return "tuple<" + strings.Join(parts, ", ") + ">"
	case cqltype.UDT:
		parts := []string{t.Keyspace + "." + t.Name}
		for i, e := range t.Elems {
			parts = append(parts, t.Fields[i]+" "+wireName(e))
		}
		return "udt<" + strings.Join(parts, ", ") + ">"
	case cqltype.Duration:
		return "'org.apache.cassandra.db.marshal.DurationType'"
	}
	return t.String()
}

// TestRecordings replays SELECT statements of the conformance recordings if the fixture supports the test data. The
// environment variable ILION_RECORDINGS specifies the folder of the recordings.
func TestRecordings(t *testing.T) {
	dir := os.Getenv("ILION_RECORDINGS")
	if dir == "" {
		t.Skip("ILION_RECORDINGS is not set")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if only := os.Getenv("ILION_RECORDINGS_FILE"); only != "" {
		files = []string{filepath.Join(dir, only+".jsonl")}
	}
	compared, failed, aborted := 0, 0, 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			var rec recorded
			if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
				t.Fatal(err)
			}
			if len(rec.Needs) > 0 {
				continue
			}
			r := &replay{t: t, w: newFixture(), rec: &rec, prepared: map[int]*Plan{}, texts: map[int]string{},
				states: map[int][]byte{}}
			n, bad, stopped := r.run()
			compared += n
			failed += bad
			if stopped {
				aborted++
			}
		}
		f.Close()
	}
	t.Logf("%d compared, %d failed, %d tests given up", compared, failed, aborted)
}

type replay struct {
	t        *testing.T
	w        *fixture
	rec      *recorded
	prepared map[int]*Plan
	texts    map[int]string
	states   map[int][]byte
}

func (r *replay) run() (compared, failed int, stopped bool) {
	for i := range r.rec.Steps {
		step := &r.rec.Steps[i]
		r.w.now += (step.SleepMS + 999) / 1000
		if step.Session > 1 || step.Op == "batch" || step.Op == "login" {
			return compared, failed, true
		}
		r.w.keyspace = step.Keyspace
		text := rawText(step.CQL)
		if step.Op == "execute" {
			text = r.texts[step.Prepared]
		}
		if step.Op == "prepare" {
			r.texts[i] = text
		}
		stmt, markers, err := parser.Parse(text)
		sel, isSelect := stmt.(*parser.Select)
		if err != nil || !isSelect {
			if err != nil || step.Op == "prepare" || step.Expect.Kind == "error" {
				continue
			}
			b, ok := r.binds(step, markers)
			if !ok || step.Stamp != nil {
				return compared, failed, true
			}
			if err := r.w.set(stmt, len(markers), b); err != nil {
				if i == len(r.rec.Steps)-1 || dropped(stmt) {
					return compared, failed, false
				}
				if !errors.Is(err, errScene) {
					r.t.Logf("%s step %d: %s: cannot set the scene: %v", r.rec.Test, i, text, err)
				}
				return compared, failed, true
			}
			continue
		}
		if step.Compare == "skip" || strings.HasPrefix(sel.Table.Keyspace.Name, "system") {
			continue
		}
		b, ok := r.binds(step, markers)
		if !ok {
			continue
		}
		got, err := r.answer(i, step, text, b)
		want := r.want(step)
		compared++
		if step.Compare == "code_only" && step.Expect.Kind == "error" {
			if err != nil {
				continue
			}
		}
		if slices.Contains(step.Volatile, "message") && err != nil {
			continue
		}
		if signatures(got) != signatures(want) {
			failed++
			r.t.Errorf("%s step %d: %s %s\n--- got\n%s--- want\n%s", r.rec.Test, i, text, step.Values, clip(got),
				clip(want))
		}
	}
	return compared, failed, false
}

// signatures sorts the function signatures in an error text, because Cassandra returns the signatures in hash order.
func signatures(s string) string {
	for _, head := range []string{"known type signatures: ", "following signatures: "} {
		if _, list, ok := strings.Cut(s, head); ok {
			parts := strings.Split(strings.TrimRight(list, ")\n"), ", ")
			slices.Sort(parts)
			return head + strings.Join(parts, ", ")
		}
	}
	return s
}

func dropped(s parser.Statement) bool {
	switch s.(type) {
	case *parser.DropKeyspace, *parser.DropTable, *parser.DropType:
		return true
	}
	return false
}

func clip(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "...\n"
	}
	return s
}

func (r *replay) binds(step *recordedStep, markers []parser.BindMarker) (binds, bool) {
	var values []any
	var b binds
	if len(step.Values) == 0 {
		if len(step.Named) == 0 {
			return b, true
		}
		for _, m := range markers {
			raw, err := hex.DecodeString(step.Named[m.Name])
			if err != nil {
				return b, false
			}
			b.values = append(b.values, raw)
		}
		return b, true
	}
	if json.Unmarshal(step.Values, &values) != nil {
		return b, false
	}
	for _, v := range values {
		switch {
		case v == nil:
			b.values, b.unset = append(b.values, nil), append(b.unset, false)
		case joined(v) == "unset":
			b.values, b.unset = append(b.values, nil), append(b.unset, true)
		default:
			raw, err := hex.DecodeString(joined(v))
			if err != nil {
				return b, false
			}
			b.values, b.unset = append(b.values, append([]byte{}, raw...)), append(b.unset, false)
		}
	}
	return b, true
}

func (r *replay) answer(i int, step *recordedStep, text string, b binds) (string, error) {
	var p *Plan
	var err error
	if step.Op == "execute" {
		p = r.prepared[step.Prepared]
		if p != nil {
			if _, t, err := r.w.table(parser.QualifiedName{Keyspace: parser.Ident{Name: p.Table().Keyspace},
				Name: parser.Ident{Name: p.Table().Name}}); err != nil || t.Revision != p.Table().Revision {
				p = nil
			}
		}
		if p == nil {
			return "error\n", errScene
		}
	} else {
		p, err = r.w.prepare(text)
	}
	if err == nil && step.Op == "prepare" {
		r.prepared[i] = p
		out := "prepared\n"
		for _, v := range p.Variables() {
			out += fmt.Sprintf("bind %s %s\n", v.Name, wireName(v.Type))
		}
		return out + fmt.Sprintf("pk %v\n", p.PKIndexes()) + columnsText(p), nil
	}
	if err == nil && step.PageSize != nil && *step.PageSize == 0 {
		err = dberr.Protocolf("The page size cannot be 0")
	}
	if err == nil && step.Op != "execute" && len(p.Variables()) != len(b.values) {
		err = dberr.Invalidf("Invalid amount of bind variables")
	}
	var page *Page
	if err == nil {
		o := Options{Level: dberr.LocalQuorum}
		for c := dberr.Any; c <= dberr.LocalOne; c++ {
			if c.String() == step.CL {
				o.Level = c
			}
		}
		if o.Level == dberr.Any {
			return "error ANY ConsistencyLevel is only supported for writes\n", errScene
		}
		if step.PageSize != nil {
			o.PageSize = *step.PageSize
		}
		if step.Paging == "continue" {
			o.PagingState = r.states[step.PageFrom]
			if len(o.PagingState) == 0 {
				return "no state\n", nil
			}
		}
		page, err = r.w.execute(p, b, o)
	}
	if err != nil {
		return "error " + err.Error() + "\n", err
	}
	r.states[i] = slices.Clone(page.PagingState)
	var rows []string
	for _, cells := range decode(page, len(p.Columns())) {
		rows = append(rows, strings.Join(cells, " "))
	}
	return rowsText(columnsText(p), rows, len(page.PagingState) > 0, page.Warnings, step), nil
}

func columnsText(p *Plan) string {
	var cols []string
	for _, c := range p.Columns() {
		cols = append(cols, c.Name+" "+wireName(c.Type))
	}
	return strings.Join(cols, ", ") + "\n"
}

func rowsText(columns string, rows []string, more bool, warnings []string, step *recordedStep) string {
	if step.Compare == "unordered" {
		slices.Sort(rows)
	}
	if slices.Contains(step.Volatile, "rows") {
		rows = nil
	}
	for _, v := range step.Volatile {
		if strings.HasPrefix(v, "col:") {
			rows = nil
		}
	}
	out := columns + strings.Join(rows, "\n") + "\n"
	if more {
		out += "MORE\n"
	}
	for _, w := range warnings {
		out += "warning " + w + "\n"
	}
	return out
}

func (r *replay) want(step *recordedStep) string {
	e := &step.Expect
	switch e.Kind {
	case "error":
		return "error " + rawText(e.Message) + "\n"
	case "prepared":
		out := "prepared\n"
		for _, b := range e.BindTypes {
			out += fmt.Sprintf("bind %s %s\n", b[0], b[1])
		}
		return out + fmt.Sprintf("pk %v\n", e.PKIndexes) + recordedColumns(e)
	}
	var rows []string
	for _, row := range e.Rows {
		var cells []string
		for _, c := range row {
			if c == nil {
				cells = append(cells, "null")
			} else {
				cells = append(cells, "0x"+joined(c))
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return rowsText(recordedColumns(e), rows, e.More, e.Warnings, step)
}

func recordedColumns(e *recordedExpect) string {
	var cols []string
	for _, c := range e.Columns {
		cols = append(cols, c[0]+" "+c[1])
	}
	return strings.Join(cols, ", ") + "\n"
}

// decode splits a page into cells. Each cell is a hexadecimal string or null.
func decode(p *Page, columns int) [][]string {
	var out [][]string
	cells := p.Cells
	for range p.Rows {
		var row []string
		for range columns {
			n := int32(binary.BigEndian.Uint32(cells))
			cells = cells[4:]
			if n < 0 {
				row = append(row, "null")
				continue
			}
			row = append(row, "0x"+hex.EncodeToString(cells[:n]))
			cells = cells[n:]
		}
		out = append(out, row)
	}
	return out
}
