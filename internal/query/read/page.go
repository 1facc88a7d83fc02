// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/guardrail"
)

// Reader answers read commands: the coordinator for stored tables, the catalog for computed ones. It calls the visitor
// on the caller's goroutine and keeps neither the command nor the visitor.
type Reader interface {
	Read(ctx context.Context, r *command.Read, v command.Visitor) error
}

// Column describes a column of a result.
type Column struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// Memory is shared by all results that are being read.
type Memory interface {
	// Take takes bytes for a result that is not cut into pages, unless it returns an error for the client.
	Take(bytes int) error
	// Spare takes bytes for a page, or reports that there are none to spare: then the page ends.
	Spare(bytes int) bool
	// Give returns bytes.
	Give(bytes int)
}

// Evaluation says what the evaluation of expressions may take; see package meter.
type Evaluation struct {
	Pool  *meter.Pool
	Bytes int64
	Slots *fairshare.Slots
	// Who is the claimant of a slot.
	Who fairshare.Principal
	// Deadline ends the evaluation; without one Options.Deadline does.
	Deadline time.Time
}

// memoryStep is by how many bytes a result grows before it asks for more memory.
const memoryStep = 64 << 10

// Options say how one execution is to be done. Level has to be set: the zero value is ANY, which is for writes only.
type Options struct {
	Level dberr.Consistency
	// PageSize is the number of rows (of groups, with GROUP BY) per page; zero or less: no paging.
	PageSize int
	// PagingState is where to go on, as a Page of the same statement had it; empty: from the beginning.
	PagingState []byte
	// Now is the second since the epoch at which expiry is judged.
	Now int64
	// PageBytesMax bounds the cells of a page: a page that has them ends early. 0 = 8 MiB. Without paging it is
	// ignored.
	PageBytesMax int
	// ResultBytesMax bounds the cells of a result that is not cut into pages: a larger one is refused. 0 = 255 MiB.
	ResultBytesMax int
	// Memory is asked before a result grows by further 64 KiB; nil: there is enough. What it gave is in Page.Held.
	Memory Memory
	// SortBytesMax bounds what is held for ORDER BY over several partitions. 0 = 64 MiB.
	SortBytesMax int
	// VisitsMax bounds the rows that one command visits before another one goes on after it, so that no storage
	// iterator lives long. 0 = 10000.
	VisitsMax int
	// PageVisitsMax bounds the keys that one page of a range of partitions looks at, rows and partitions with nothing
	// in them: a page that has looked at so many ends early, perhaps without a row. 0 = 500000.
	PageVisitsMax int
	// Deadline ends what takes more than one command, whatever is still to be read: aggregates over a whole table,
	// results without pages, many keys. Clock is asked what time it is; nil: nothing ends it.
	Deadline time.Time
	Clock    func() time.Time
	// Building reports whether an index is still being built, in which case it is not used; nil: none is.
	Building func(*schema.Index) bool
	// Guard has the guardrails that hold for the client and takes their warnings; nil: none.
	Guard *guardrail.Check
	// MaxCharge ends what costs more, with ru.Exceeded; 0: nothing does.
	MaxCharge ru.Units
	// Evaluation bounds the evaluation of expressions.
	Evaluation Evaluation
	// Claimant is who asks, if that matters, and NoWait whether it cannot wait; see command.Read.
	Claimant fairshare.Principal
	NoWait   bool
	// Clear shows masked columns as they are: the client may see them, or masks are switched off.
	Clear bool
}

func (o Options) withDefaults() Options {
	if o.PageBytesMax <= 0 {
		o.PageBytesMax = 8 << 20
	}
	if o.ResultBytesMax <= 0 {
		o.ResultBytesMax = 255 << 20
	}
	if o.SortBytesMax <= 0 {
		o.SortBytesMax = 64 << 20
	}
	if o.VisitsMax <= 0 {
		o.VisitsMax = 10_000
	}
	if o.PageVisitsMax <= 0 {
		o.PageVisitsMax = 500_000
	}
	return o
}

// Page is what an execution gives. The caller may reuse one: Cells and PagingState keep their capacity.
type Page struct {
	// Cells holds the values of all rows, row by row, in the order of Plan.Columns: a 32-bit big-endian length (-1 =
	// null) and that many bytes each.
	Cells []byte
	Rows  int
	// PagingState asks for the next page; it is empty on the last one.
	PagingState []byte
	Warnings    []string
	// Held is what was taken from Options.Memory, in bytes; the caller gives it back, also after an error.
	Held int
	// Partitions is the number of logical partitions that were touched, Visited the number of rows that were looked at.
	Partitions, Visited int
	// Charge is what reading has cost.
	Charge ru.Units
}

// Reset empties the page and keeps its memory.
func (p *Page) Reset() {
	*p = Page{Cells: p.Cells[:0], PagingState: p.PagingState[:0]}
}
