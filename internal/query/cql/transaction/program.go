// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// errMalformed is returned for bytes that are not a valid program or result.
var errMalformed = errors.New("malformed transaction")

// programVersion is the first byte of an encoded program. resultVersion is the first byte of an encoded result. Results
// are stored with rows.
const (
	programVersion = 1
	resultVersion  = 1
)

// programBody is the content of a program that is sent to the leader.
type programBody struct {
	keyspace, text string
	// table and revision identify the table revision to which the client's node has bound the transaction.
	table    uint32
	revision uint64
	now      int64 // current time in Unix nanoseconds
	// guarded reports whether the guardrails apply to the client. clear reports whether the client may see unmasked
	// values.
	guarded, clear bool
	values         [][]byte
	unset          []bool
}

// fieldClear is present if the client may see unmasked values. A build that does not know the field does not support
// masks.
const fieldClear = 1

// appendProgram encodes a program that executes a plan.
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

// decodeProgram decodes the output of appendProgram. The values refer to the memory of src.
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

// checkVersion reads a version and the following fields. known reports whether this build knows a field. known may be
// nil.
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

// bindings returns the bindings for an execution.
func (p *programBody) bindings() expr.Bindings {
	return expr.Bindings{Values: p.values, Unset: p.unset, Now: time.Unix(0, p.now).UTC()}
}

// programResult is the result of a program.
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

// decodeResult decodes the output of append. The cells refer to the memory of src.
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
