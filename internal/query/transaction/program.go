// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// errMalformed says that bytes are no program, or no result of one.
var errMalformed = errors.New("malformed transaction")

// programVersion is the first byte of a program, resultVersion that of what it returns: results are kept beside rows.
const (
	programVersion = 1
	resultVersion  = 1
)

// body is what travels to the leader.
type programBody struct {
	keyspace, text string
	// table and revision are what the client's node has bound the statement to.
	table    uint32
	revision uint64
	now      int64 // in Unix nanoseconds
	// guarded says that the guardrails hold for the client, clear that it may see masked columns.
	guarded, clear bool
	values         [][]byte
	unset          []bool
}

// fieldClear is there if the client may see masked columns. A build that does not know it knows no masks.
const fieldClear = 1

// appendProgram encodes an execution of a plan.
func appendProgram(p *Plan, b *expr.Bindings, guarded, clear bool) []byte {
	w := codec.Writer{programVersion}
	if clear {
		w.Field(fieldClear, false, nil)
	}
	w.EndFields()
	w.Text(p.keyspace)
	w.Text(p.text)
	w.Uint(uint64(p.table.ID))
	w.Uint(p.table.Revision)
	w.Int(b.Now.UnixNano())
	w.Flag(guarded)
	w.Uint(uint64(len(b.Values)))
	for i, v := range b.Values {
		w.Flag(b.Unset != nil && b.Unset[i])
		w.Null(v)
	}
	return w
}

// decodeProgram reads what appendProgram wrote; values are views.
func decodeProgram(src []byte) (p programBody, err error) {
	r := codec.NewReader(src, errMalformed)
	if err := checkVersion(&r, "the program of a transaction", programVersion, func(f codec.Field) bool {
		p.clear = p.clear || f.Number == fieldClear
		return f.Number == fieldClear
	}); err != nil {
		return p, err
	}
	p.keyspace, p.text = r.Text(), r.Text()
	p.table, p.revision, p.now, p.guarded = r.Uint32(), r.Uint(), r.Int(), r.Flag()
	for range r.Count(2) {
		p.unset = append(p.unset, r.Flag())
		p.values = append(p.values, r.Null())
	}
	return p, r.End()
}

// checkVersion reads a version and the fields after it; known takes those that this build knows, nil if there are none.
func checkVersion(r *codec.Reader, what string, newest byte, known func(codec.Field) bool) error {
	if v := r.Byte(); v > newest {
		return &feature.Newer{What: what, Unit: "version", Has: uint64(v), Newest: uint64(newest)}
	}
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if !(known != nil && known(f)) && f.Must {
			return &feature.Newer{What: what, Unit: "field", Has: f.Number}
		}
	}
	return r.Err()
}

// bindings are the values of an execution.
func (p *programBody) bindings() expr.Bindings {
	return expr.Bindings{Values: p.values, Unset: p.unset, Now: time.Unix(0, p.now).UTC()}
}

// answer is what a program returns.
type programResult struct {
	rows     int
	cells    []byte
	warnings []string
}

func (a *programResult) append(dst []byte) []byte {
	w := codec.Writer(append(dst, resultVersion))
	w.EndFields()
	w.Uint(uint64(a.rows))
	w.Bytes(a.cells)
	w.Uint(uint64(len(a.warnings)))
	for _, text := range a.warnings {
		w.Text(text)
	}
	return w
}

// decodeAnswer reads what append wrote; cells are a view.
func decodeResult(src []byte) (a programResult, err error) {
	r := codec.NewReader(src, errMalformed)
	if err := checkVersion(&r, "the result of a transaction", resultVersion, nil); err != nil {
		return a, err
	}
	a.rows = int(r.UpTo(1 << 30))
	a.cells = r.Bytes()
	for range r.Count(1) {
		a.warnings = append(a.warnings, r.Text())
	}
	return a, r.End()
}
