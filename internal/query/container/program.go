// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// These are the kinds of programs. A program contains operations on items, or is a program of a Runner. The kind is
// the first byte. Programs of query/cql/transaction have smaller kinds.
const (
	itemsProgram  = 0x10
	runnerProgram = 0x11
	// FirstProgram and LastProgram are the bounds of the first byte of the programs that Engine executes.
	FirstProgram = itemsProgram
	LastProgram  = 0x1f

	resultVersion = 1
)

var errMalformed = errors.New("malformed container program")

// request is the encoded request to the leader.
type request struct {
	// table and revision identify the container version that the client's node has used.
	table    uint32
	revision uint64
	now      int64 // current time in Unix seconds
	noBodies bool
	ops      []Operation
	// program is a Runner's program. It replaces the operations.
	program []byte
}

// requestSlack and operationSlack are the approximate sizes of a request and of each operation, excluding texts and
// bodies.
const requestSlack, operationSlack = 48, 24

// append encodes a request.
func (q *request) append(dst []byte) []byte {
	size := requestSlack + len(q.program)
	for i := range q.ops {
		o := &q.ops[i]
		size += operationSlack + len(o.ID) + len(o.Body) + len(o.IfMatch) + len(o.IfNoneMatch)
	}
	w := codec.Writer(append(slices.Grow(dst, size), itemsProgram))
	if q.program != nil {
		w[len(w)-1] = runnerProgram
	}
	w.EndFields()
	w.Uint(uint64(q.table))
	w.Uint(q.revision)
	w.Int(q.now)
	if q.program != nil {
		w.Bytes(q.program)
		return w
	}
	w.Flag(q.noBodies)
	w.Uint(uint64(len(q.ops)))
	for i := range q.ops {
		o := &q.ops[i]
		w.Byte(byte(o.Kind))
		w.Text(o.ID)
		w.Bytes(o.Body)
		w.Text(o.IfMatch)
		w.Text(o.IfNoneMatch)
	}
	return w
}

// decodeRequest decodes the output of append. Bodies refer to src.
func decodeRequest(src []byte) (q request, err error) {
	r := codec.NewReader(src, errMalformed)
	kind := r.Byte()
	if kind != itemsProgram && kind != runnerProgram {
		return q, &feature.Newer{What: "a container program", Unit: "kind", Has: uint64(kind),
			Newest: runnerProgram}
	}
	if err := passFields(&r, "a container program"); err != nil {
		return q, err
	}
	q.table, q.revision, q.now = r.Uint32(), r.Uint(), r.Int()
	if kind == runnerProgram {
		q.program = append([]byte{}, r.Bytes()...)
		return q, r.End()
	}
	q.noBodies = r.Flag()
	for range r.Count(5) {
		o := Operation{Kind: Kind(r.Byte()), ID: r.Text(), Body: r.Bytes(), IfMatch: r.Text(), IfNoneMatch: r.Text()}
		if o.Kind < Create || o.Kind > Read {
			return q, &feature.Newer{What: "a container program", Unit: "operation", Has: uint64(o.Kind),
				Newest: uint64(Read)}
		}
		q.ops = append(q.ops, o)
	}
	return q, r.End()
}

// passFields skips the fields of a record. This build defines no fields.
func passFields(r *codec.Reader, what string) error {
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if f.Must {
			return &feature.Newer{What: what, Unit: "field", Has: f.Number}
		}
	}
	return r.Err()
}

// answer is the result of a program. answer is stored with the rows and returned again if the request is repeated.
type answer struct {
	failed int // -1 if no operation failed
	of     []outcome
	// result is the result of a Runner.
	result []byte
}

// outcome is the result of one operation.
type outcome struct {
	status, sub int
	message     string
	charge      ru.Units
	id          string
	// there reports whether stored is the item after the operation. The body is nil if the sender has it or if it is
	// too large to be stored for a repeated request.
	there  bool
	stored stored
}

func (a *answer) append(dst []byte) []byte {
	size := requestSlack + len(a.result)
	for i := range a.of {
		o := &a.of[i]
		size += 2*operationSlack + len(o.message) + len(o.id) + len(o.stored.body)
	}
	w := codec.Writer(append(slices.Grow(dst, size), resultVersion))
	w.EndFields()
	w.Int(int64(a.failed))
	w.Bytes(a.result)
	w.Uint(uint64(len(a.of)))
	for i := range a.of {
		o := &a.of[i]
		w.Uint(uint64(o.status))
		w.Uint(uint64(o.sub))
		w.Text(o.message)
		w.Uint(uint64(o.charge))
		w.Text(o.id)
		w.Flag(o.there)
		if o.there {
			w.Raw(o.stored.etag[:])
			w.Int(o.stored.ts)
			w.Null(o.stored.body)
		}
	}
	return w
}

// decodeAnswer decodes the output of append. Bodies and results refer to src.
func decodeAnswer(src []byte) (a answer, err error) {
	r := codec.NewReader(src, errMalformed)
	if v := r.Byte(); v > resultVersion {
		return a, &feature.Newer{What: "the result of a container program", Unit: "version", Has: uint64(v),
			Newest: resultVersion}
	}
	if err := passFields(&r, "the result of a container program"); err != nil {
		return a, err
	}
	a.failed, a.result = int(r.Int()), r.Bytes()
	for range r.Count(6) {
		o := outcome{status: int(r.UpTo(999)), sub: int(r.UpTo(1 << 16)), message: r.Text(),
			charge: ru.Units(r.UpTo(1 << 62)), id: r.Text(), there: r.Flag()}
		if o.there {
			copy(o.stored.etag[:], r.Take(uint64(len(o.stored.etag))))
			o.stored.ts, o.stored.body = r.Int(), r.Null()
		}
		a.of = append(a.of, o)
	}
	return a, r.End()
}
