// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
)

// Reader executes read commands: the coordinator for stored tables, the catalog for virtual tables. It calls the
// visitor on the caller's goroutine and retains neither the command nor the visitor.
type Reader interface {
	Read(ctx context.Context, r *command.Read, v command.Visitor) error
}

// Column describes a column of a result.
type Column = expr.Column

// Memory is the memory budget shared by all results that are being read.
type Memory interface {
	// Take reserves bytes for an unpaged result. It returns an error for the client if the memory is exhausted.
	Take(bytes int) error
	// Spare reserves bytes for a page. It returns false if the memory is exhausted. In this case, the page must end.
	Spare(bytes int) bool
	// Give releases bytes.
	Give(bytes int)
}

// Evaluation limits the evaluation of expressions. See package meter.
type Evaluation struct {
	Pool  *meter.Pool
	Bytes int64
	Slots *fairshare.Slots
	// Who is the principal to which the evaluation slot is attributed.
	Who fairshare.Principal
	// Deadline ends the evaluation. If it is zero, Options.Deadline applies.
	Deadline time.Time
}

// memoryStep is the number of bytes by which a result grows before it reserves more memory.
const memoryStep = 64 << 10

// IndexBuilds reports whether an index is being built. Reads do not use an index that is being built.
type IndexBuilds interface {
	Building(ix *schema.Index) bool
}

// Options configures one execution. Level must be set: the zero value is ANY, which is valid for writes only.
type Options struct {
	Level dberr.Consistency
	// PageSize is the number of rows per page, or the number of groups per page if the statement has a GROUP BY. If it
	// is not positive, the result is not paged.
	PageSize int
	// PagingState is the position at which to resume, from a Page of the same statement. If it is empty, the read
	// starts at the beginning.
	PagingState []byte
	// Now is the time in Unix seconds at which expiry is evaluated.
	Now int64
	// PageBytesMax limits the cells of a page: a page that reaches the limit ends early. The default is 8 MiB. It does
	// not apply to unpaged results.
	PageBytesMax int
	// ResultBytesMax limits the cells of an unpaged result: a larger result is rejected. The default is 255 MiB.
	ResultBytesMax int
	// Memory reserves memory before a result grows by another 64 KiB. If Memory is nil, memory is not limited.
	// Page.Held is the amount of reserved memory.
	Memory Memory
	// SortBytesMax limits the memory of ORDER BY over several partitions. The default is 64 MiB.
	SortBytesMax int
	// VisitsMax is the maximum number of rows that one command visits. A new command then continues with the next row,
	// which keeps storage iterators short-lived. The default is 10000.
	VisitsMax int
	// PageVisitsMax limits the keys that one page of a range read visits, including rows and partitions without live
	// data. A page that reaches the limit ends early, possibly without rows. The default is 500000.
	PageVisitsMax int
	// Deadline ends an execution that requires several commands: aggregates over a whole table, unpaged results, and
	// many keys. Clock returns the current time. If Clock is nil, the execution has no deadline.
	Deadline time.Time
	Clock    sched.Clock
	// Builds may be nil: then all indexes are complete.
	Builds IndexBuilds
	// Guard holds the guardrails of the client and collects their warnings. Guard may be nil.
	Guard *guardrail.Check
	// MaxCharge limits the cost: an execution whose cost exceeds MaxCharge ends with ru.Exceeded. If MaxCharge is 0,
	// the cost is not limited.
	MaxCharge ru.Units
	// Evaluation limits the evaluation of expressions.
	Evaluation Evaluation
	// Claimant identifies the client for fair sharing. NoWait reports whether the read must not wait. See command.Read.
	Claimant fairshare.Principal
	NoWait   bool
	// Clear disables masking. It is set if the client may see unmasked values or if masking is off.
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

// Page is the result of an execution. The caller may reuse it: Cells and PagingState keep their capacity.
type Page struct {
	// Cells holds the values of all rows, row by row, in the order of Plan.Columns. Each value is a 32-bit big-endian
	// length (-1 for null) followed by that number of bytes.
	Cells []byte
	Rows  int
	// PagingState requests the next page. It is empty on the last page.
	PagingState []byte
	Warnings    []string
	// Held is the memory reserved from Options.Memory, in bytes. The caller must release it, even after an error.
	Held int
	// Visited is the number of rows that were visited.
	Visited int
	// Charge is the cost of the read.
	Charge ru.Units
}

// Reset empties the page and keeps its buffers.
func (p *Page) Reset() {
	*p = Page{Cells: p.Cells[:0], PagingState: p.PagingState[:0]}
}
