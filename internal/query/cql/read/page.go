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

// Reader executes read commands. The coordinator implements Reader for stored tables, and the catalog implements Reader
// for virtual tables. A Reader calls the visitor on the caller's goroutine and does not retain the command or the
// visitor.
type Reader interface {
	Read(ctx context.Context, r *command.Read, v command.Visitor) error
}

// Column describes a column of a result.
type Column = expr.Column

// Memory is the memory budget of all results that are being read.
type Memory interface {
	// Take reserves bytes for an unpaged result. It returns an error for the client if the memory is exhausted.
	Take(bytes int) error
	// Spare reserves bytes for a page. If the memory is exhausted, Spare returns false and the page must end.
	Spare(bytes int) bool
	// Give releases reserved bytes.
	Give(bytes int)
}

// Evaluation limits the evaluation of expressions. See package meter.
type Evaluation struct {
	Pool  *meter.Pool
	Bytes int64
	Slots *fairshare.Slots
	// Who is the principal that uses the evaluation slot.
	Who fairshare.Principal
	// Deadline ends the evaluation. If Deadline is zero, Options.Deadline applies.
	Deadline time.Time
}

// memoryStep is the number of bytes that a result reserves at a time.
const memoryStep = 64 << 10

// IndexBuilds reports whether an index is being built. Reads do not use an index that is being built.
type IndexBuilds interface {
	Building(ix *schema.Index) bool
}

// Options configures one execution. Level must be set, because the zero value is ANY, which is valid only for writes.
type Options struct {
	Level dberr.Consistency
	// PageSize is the number of rows per page, or the number of groups per page if the statement has a GROUP BY. If
	// PageSize is not positive, the result is not paged.
	PageSize int
	// PagingState is the paging state from a Page of the same statement. If PagingState is empty, the read starts at
	// the beginning.
	PagingState []byte
	// Now is the Unix time in seconds that determines which data has expired.
	Now int64
	// PageBytesMax limits the size of a page's cells. A page that reaches the limit ends early. The default is 8 MiB.
	// PageBytesMax does not apply to unpaged results.
	PageBytesMax int
	// ResultBytesMax limits the size of an unpaged result's cells. A larger result is rejected. The default is 255 MiB.
	ResultBytesMax int
	// Memory is the budget from which results reserve memory in steps of 64 KiB. If Memory is nil, the memory is not
	// limited. Page.Held is the amount of reserved memory.
	Memory Memory
	// SortBytesMax limits the memory for an ORDER BY of several partitions. The default is 64 MiB.
	SortBytesMax int
	// VisitsMax is the maximum number of rows that one command visits. After this number of rows, a new command
	// continues the read, so that storage iterators are short-lived. The default is 10000.
	VisitsMax int
	// PageVisitsMax limits the number of keys that one page of a range read visits, including the keys of rows and
	// partitions without live data. A page that reaches the limit ends early, possibly without rows. The default is
	// 500000.
	PageVisitsMax int
	// Deadline ends an execution that requires several commands. Examples are aggregates over a whole table, unpaged
	// results, and reads of many keys. Clock returns the current time. If Clock is nil, the execution has no deadline.
	Deadline time.Time
	Clock    sched.Clock
	// Builds reports which indexes are being built. If Builds is nil, all indexes are complete.
	Builds IndexBuilds
	// Guard holds the guardrails of the client and collects the warnings. Guard may be nil.
	Guard *guardrail.Check
	// MaxCharge limits the cost of the execution. If the cost exceeds MaxCharge, the execution ends with ru.Exceeded.
	// If MaxCharge is 0, the cost is not limited.
	MaxCharge ru.Units
	// Evaluation limits the evaluation of expressions.
	Evaluation Evaluation
	// Claimant identifies the client for fair sharing. If NoWait is true, the read must not wait for throttled
	// partitions. See command.Read.
	Claimant fairshare.Principal
	NoWait   bool
	// Clear disables masking. The caller must set Clear if the client may see unmasked values or masking is off.
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

// Page is the result of an execution. The caller may reuse a Page. Cells and PagingState keep their capacity.
type Page struct {
	// Cells holds the values of all rows in row order. Within a row, the values are in the order of Plan.Columns. Each
	// value consists of a 32-bit big-endian length and the bytes of the value. The length -1 represents null.
	Cells []byte
	Rows  int
	// PagingState is the paging state for the next page. On the last page, PagingState is empty.
	PagingState []byte
	Warnings    []string
	// Held is the memory reserved from Options.Memory, in bytes. The caller must release the memory, even after an
	// error.
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
