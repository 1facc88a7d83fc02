// SPDX-License-Identifier: Apache-2.0

// Package display prints the rows of a result page by page. It prints an aligned table, JSON lines, or CSV. It holds
// one page at a time. Start reading at NewRows.
package display

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Format is an output format.
type Format string

// These are the output formats. Expanded works like Table, but prints one line per column.
const (
	Table    Format = "table"
	Expanded Format = "expanded"
	JSON     Format = "json"
	CSV      Format = "csv"
)

// These are terminal colors (ECMA-48).
const (
	nameColor   = "\x1b[35m" // magenta
	textColor   = "\x1b[33m" // yellow
	numberColor = "\x1b[32m" // green
	nullColor   = "\x1b[31m" // red
	plainColor  = "\x1b[0m"
)

// Rows prints the rows of a result.
type Rows struct {
	out     io.Writer
	format  Format
	color   bool
	columns []cqlwire.Column
	widths  []int
	count   int
}

// NewRows returns a printer for rows with the given columns. color applies to Table and Expanded.
func NewRows(out io.Writer, format Format, color bool, columns []cqlwire.Column) *Rows {
	return &Rows{out: out, format: format, color: color, columns: columns}
}

// Page prints one page of a result. It returns an error if cells are truncated.
func (r *Rows) Page(page *cqlwire.Result) error {
	if page.ColumnCount != len(r.columns) {
		return fmt.Errorf("the server returned a page with %d columns instead of %d", page.ColumnCount, len(r.columns))
	}
	rows, cells := make([][][]byte, 0, min(page.RowCount, 1<<16)), page.Cells
	for range page.RowCount {
		row := make([][]byte, len(r.columns))
		for i := range row {
			var ok bool
			if row[i], cells, ok = cqlwire.NextCell(cells); !ok {
				return fmt.Errorf("the result is truncated at row %d", r.count+len(rows)+1)
			}
		}
		rows = append(rows, row)
	}
	var err error
	switch r.format {
	case JSON:
		err = r.json(rows)
	case CSV:
		err = r.csv(rows)
	case Expanded:
		err = r.expanded(rows)
	default:
		err = r.table(rows)
	}
	r.count += len(rows)
	return err
}

// End prints the text after the last page.
func (r *Rows) End() error {
	if r.format == JSON || r.format == CSV {
		return nil
	}
	_, err := fmt.Fprintf(r.out, "\n(%d rows)\n", r.count)
	return err
}

// texts formats rows and widens the columns if necessary. wider is true if a column has become wider.
func (r *Rows) texts(rows [][][]byte) (texts [][]string, wider bool) {
	if r.widths == nil {
		wider = true
		for _, c := range r.columns {
			r.widths = append(r.widths, runewidth.StringWidth(printable(c.Name)))
		}
	}
	for _, row := range rows {
		text := make([]string, len(row))
		for i, v := range row {
			text[i] = Value(r.columns[i].Type, v)
			if w := runewidth.StringWidth(text[i]); w > r.widths[i] {
				r.widths[i], wider = w, true
			}
		}
		texts = append(texts, text)
	}
	return texts, wider
}

// table prints rows below a heading. The heading is repeated if a later page needs wider columns.
func (r *Rows) table(rows [][][]byte) error {
	texts, wider := r.texts(rows)
	var b strings.Builder
	if wider {
		b.WriteByte('\n')
		r.line(&b, func(i int) string {
			name := printable(r.columns[i].Name)
			if i < len(r.columns)-1 {
				name = runewidth.FillRight(name, r.widths[i])
			}
			return r.paint(nameColor, name)
		})
		for i, w := range r.widths {
			if i > 0 {
				b.WriteByte('+')
			}
			b.WriteString(strings.Repeat("-", w+2))
		}
		b.WriteByte('\n')
	}
	for n, text := range texts {
		r.line(&b, func(i int) string {
			return r.paint(colorOf(r.columns[i].Type, rows[n][i]), runewidth.FillLeft(text[i], r.widths[i]))
		})
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

func (r *Rows) line(b *strings.Builder, cell func(i int) string) {
	for i := range r.columns {
		if i > 0 {
			b.WriteString(" |")
		}
		b.WriteString(" " + cell(i))
	}
	b.WriteByte('\n')
}

// expanded prints a row as one line per column.
func (r *Rows) expanded(rows [][][]byte) error {
	texts, _ := r.texts(rows)
	names, values := 0, 0
	for i, c := range r.columns {
		names, values = max(names, runewidth.StringWidth(printable(c.Name))), max(values, r.widths[i])
	}
	var b strings.Builder
	for n, text := range texts {
		fmt.Fprintf(&b, "\n@ Row %d\n%s+%s\n", r.count+n+1, strings.Repeat("-", names+2), strings.Repeat("-", values+2))
		for i, c := range r.columns {
			fmt.Fprintf(&b, " %s | %s\n", r.paint(nameColor, runewidth.FillRight(printable(c.Name), names)),
				r.paint(colorOf(c.Type, rows[n][i]), text[i]))
		}
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// json prints one JSON object per line.
func (r *Rows) json(rows [][][]byte) error {
	var b []byte
	for _, row := range rows {
		for i, v := range row {
			b = append(b, map[bool]string{true: "{", false: ", "}[i == 0]...)
			b = append(cqltype.AppendJSONString(b, r.columns[i].Name), ": "...)
			b = r.columns[i].Type.AppendJSON(b, v)
		}
		b = append(b, "}\n"...)
	}
	_, err := r.out.Write(b)
	return err
}

// csv prints rows below a line of column names. Null and the empty string are both empty fields. Only the JSON format
// distinguishes them.
func (r *Rows) csv(rows [][][]byte) error {
	w := csv.NewWriter(r.out)
	if r.count == 0 && r.widths == nil {
		r.widths = []int{} // the names have been printed
		names := make([]string, len(r.columns))
		for i, c := range r.columns {
			names[i] = c.Name
		}
		_ = w.Write(names) // flush returns the error
	}
	for _, row := range rows {
		text := make([]string, len(row))
		for i, v := range row {
			if v != nil {
				text[i] = r.columns[i].Type.Text(v)
			}
		}
		_ = w.Write(text)
	}
	w.Flush()
	return w.Error()
}

func (r *Rows) paint(color, text string) string {
	if !r.color {
		return text
	}
	return color + text + plainColor
}

func colorOf(t *cqltype.Type, v []byte) string {
	switch {
	case v == nil:
		return nullColor
	case slices.Contains([]cqltype.Kind{cqltype.Ascii, cqltype.Text, cqltype.Blob}, t.Kind) || !t.Kind.IsNative():
		return textColor
	}
	return numberColor
}

// printable returns a name without characters that a terminal could interpret.
func printable(name string) string { return string(appendText(nil, name, false)) }
