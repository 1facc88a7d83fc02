// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Pushdown asks a replica to process the rows that a Read finds instead of returning them. For example, the replica
// can filter and count the rows. A replica may decline the request. For example, the replica may not know the program,
// may have no memory for the program, or may fail to run it. In these cases, the replica returns the rows as usual. A
// build without pushdown support does the same. The requester must be prepared for results and for rows.
type Pushdown struct {
	// Program describes the processing. It is opaque in this package, and its first byte identifies its owner. It has
	// at most PushdownBytesMax bytes.
	Program []byte
	// Rows is the maximum number of rows to examine in one call, or 0 for the replica's own limit.
	Rows int
}

// PushdownBytesMax is the maximum size of a Pushdown program, in bytes.
const PushdownBytesMax = 256 << 10

// PushdownResult is the result for the examined rows of one physical partition. Byte slices are valid during the call.
type PushdownResult struct {
	// Result is opaque in this package. Failed means that the result is missing, and that the rows must be requested
	// without a pushdown.
	Result []byte
	Failed bool
	// Rows and Bytes are the examined amounts in the units of ru.Meter.
	Rows, Bytes int64
	// More means that processing stopped before the end of the read. It stopped after the row (Key, Clustering), or
	// after the whole logical partition if AfterPartition is set. Key is empty if no row was examined. In this case,
	// More is false.
	More           bool
	Token          token.Token
	Key            []byte
	Clustering     []byte
	AfterPartition bool
}

// PushdownVisitor is a Visitor that can receive pushdown results instead of rows. One read may deliver both results
// and rows. Physical partitions are visited in order. Each physical partition delivers either a result or rows.
type PushdownVisitor interface {
	Visitor
	// PushedDown is called once per physical partition, after all other calls for that partition. A result with More
	// set ends the read, regardless of the returned Step.
	PushedDown(f *PushdownResult) (Step, error)
}

// pushdown appends the field of a pushdown. A build that does not know the field returns rows.
func (a *appender) pushdown(f *Pushdown) {
	var w codec.Writer
	w.Uint(uint64(max(f.Rows, 0)))
	w.Raw(f.Program)
	a.Field(readPushdown, false, w)
}

func (r *reader) pushdown(f codec.Field) *Pushdown {
	v := codec.NewReader(f.Value, ErrMalformed)
	out := &Pushdown{Rows: int(v.UpTo(math.MaxInt32))}
	out.Program = v.Take(uint64(len(v.Rest())))
	if v.End() != nil || len(out.Program) == 0 || len(out.Program) > PushdownBytesMax {
		r.Fail()
	}
	return out
}

// These are the flags of an encoded PushdownResult.
const (
	pushdownFailed = 1 << iota
	pushdownMore
	pushdownAfterPartition
	pushdownFlagsEnd
)

// AppendPushdownResult appends the encoded form of f, which is self-delimiting.
func AppendPushdownResult(dst []byte, f *PushdownResult) []byte {
	w := codec.Writer(dst)
	w.Byte(codec.Bit(f.Failed)*pushdownFailed | codec.Bit(f.More)*pushdownMore |
		codec.Bit(f.AfterPartition)*pushdownAfterPartition)
	w.Uint(uint64(f.Rows))
	w.Uint(uint64(f.Bytes))
	w.Fixed(uint64(f.Token))
	w.Bytes(f.Key)
	w.Bytes(f.Clustering)
	w.Bytes(f.Result)
	w.EndFields()
	return w
}

// TakePushdownResult reads the output of AppendPushdownResult. Byte slices point into the memory that r reads.
func TakePushdownResult(r *codec.Reader) (f PushdownResult) {
	flags := r.Byte()
	f.Failed, f.More = flags&pushdownFailed != 0, flags&pushdownMore != 0
	f.AfterPartition = flags&pushdownAfterPartition != 0
	f.Rows, f.Bytes = int64(r.UpTo(math.MaxInt64)), int64(r.UpTo(math.MaxInt64))
	f.Token, f.Key, f.Clustering = token.Token(r.Fixed()), r.Bytes(), r.Bytes()
	f.Result = r.Bytes()
	for of := r.Field(0); of.Number != 0; of = r.Field(of.Number) {
		if of.Must {
			r.Fail()
		}
	}
	if flags >= pushdownFlagsEnd || f.More && len(f.Key) == 0 {
		r.Fail()
	}
	return f
}
