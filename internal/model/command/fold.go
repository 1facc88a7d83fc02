// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Fold asks a replica to make something of the rows that a Read finds, instead of passing them on: to filter and count
// them, for instance. It is an offer. A replica that does not know the program, has no room, or fails at it passes the
// rows on as ever, and so does a build that does not know of folds: whoever asks has to be ready for both.
type Fold struct {
	// Program says what to make of the rows. It is opaque here; its first byte says whose it is. At most FoldBytesMax.
	Program []byte
	// Rows is how many rows may be looked at at once, 0 for as many as the replica allows.
	Rows int
}

// FoldBytesMax bounds the program of a Fold, in bytes.
const FoldBytesMax = 256 << 10

// Folded is what a replica has made of the rows of one physical partition that it has looked at. Byte slices are valid
// during the call.
type Folded struct {
	// Result is opaque here. Failed says that there is none, and that the rows have to be asked for without a fold.
	Result []byte
	Failed bool
	// Rows and Bytes are what was looked at, as ru.Meter counts.
	Rows, Bytes int64
	// More says that it has ended before the end of the read, behind the row (Key, Clustering), or behind all of that
	// logical partition with AfterPartition. Key is empty if nothing was looked at; then there is not more.
	More           bool
	Token          token.Token
	Key            []byte
	Clustering     []byte
	AfterPartition bool
}

// Folder is a Visitor that can do with what was made of rows, instead of the rows. In one read it may be given some of
// both: physical partitions come in order, and each gives one or the other.
type Folder interface {
	Visitor
	// Folded is called once for a physical partition, behind everything else of it. A fold that has More ends the read,
	// whatever the answer is.
	Folded(f *Folded) (Step, error)
}

// fold appends the field of a fold: who does not know it answers with rows.
func (a *appender) fold(f *Fold) {
	var w codec.Writer
	w.Uint(uint64(max(f.Rows, 0)))
	w.Raw(f.Program)
	a.Field(readFold, false, w)
}

func (r *reader) fold(f codec.Field) *Fold {
	v := codec.NewReader(f.Value, ErrMalformed)
	out := &Fold{Rows: int(v.UpTo(math.MaxInt32))}
	out.Program = v.Take(uint64(len(v.Rest())))
	if v.End() != nil || len(out.Program) == 0 || len(out.Program) > FoldBytesMax {
		r.Fail()
	}
	return out
}

// The flags of an encoded Folded.
const (
	foldedFailed = 1 << iota
	foldedMore
	foldedAfterPartition
	foldedFlagsEnd
)

// AppendFolded appends the encoded form of f, which ends by itself.
func AppendFolded(dst []byte, f *Folded) []byte {
	w := codec.Writer(dst)
	w.Byte(codec.Bit(f.Failed)*foldedFailed | codec.Bit(f.More)*foldedMore |
		codec.Bit(f.AfterPartition)*foldedAfterPartition)
	w.Uint(uint64(f.Rows))
	w.Uint(uint64(f.Bytes))
	w.Fixed(uint64(f.Token))
	w.Bytes(f.Key)
	w.Bytes(f.Clustering)
	w.Bytes(f.Result)
	w.EndFields()
	return w
}

// TakeFolded reads what AppendFolded wrote. Byte slices are views over what r reads.
func TakeFolded(r *codec.Reader) (f Folded) {
	flags := r.Byte()
	f.Failed, f.More = flags&foldedFailed != 0, flags&foldedMore != 0
	f.AfterPartition = flags&foldedAfterPartition != 0
	f.Rows, f.Bytes = int64(r.UpTo(math.MaxInt64)), int64(r.UpTo(math.MaxInt64))
	f.Token, f.Key, f.Clustering = token.Token(r.Fixed()), r.Bytes(), r.Bytes()
	f.Result = r.Bytes()
	for of := r.Field(0); of.Number != 0; of = r.Field(of.Number) {
		if of.Must {
			r.Fail()
		}
	}
	if flags >= foldedFlagsEnd || f.More && len(f.Key) == 0 {
		r.Fail()
	}
	return f
}
