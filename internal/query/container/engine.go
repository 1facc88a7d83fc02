// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Coordinator sends commands to the partitions; *coordinator.Coordinator is one.
type Coordinator interface {
	Read(ctx context.Context, q *command.Read, v command.Visitor) error
	ConditionalWrite(ctx context.Context, cond *command.Conditional, o coordinator.WriteOptions,
		done command.CASCompletion)
	Topology() *topology.Snapshot
	Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// Store makes changes of the schema durable and known; *schemachange.Changer is one. See ddl.Store.
type Store interface {
	Apply(ctx context.Context, c schema.Change, role string) (*schema.Schema, []schema.Event, error)
}

// Options of an Engine. Catalog, Coordinator and Store are needed.
type Options struct {
	Catalog     *catalog.Catalog
	Coordinator Coordinator
	Store       Store
	// Definitions keeps what was parsed; a new one if nil.
	Definitions *Definitions
	// Sched is how the engine waits: nil, but for simulations.
	Sched *sched.Scheduler
	// Building reports whether an index is not complete; nil: none is. Indexes reports whether the cluster's nodes know
	// indexes of items, see IndexLevel; nil: they do.
	Building func(*schema.Index) bool
	Indexes  func() bool
	// Level is the feature level by which the nodes of the cluster write; nil: feature.Newest.
	Level func() feature.Level
	// Progress is how far an index is built that is not complete, in percent, as far as this node knows; nil: 0.
	Progress func(*schema.Index) int
	// Restoring reports whether a table is being restored from a backup, so that some of its items are missing; nil:
	// none is.
	Restoring func(*schema.Table) bool
	// Newest returns when the schema of this node has every change that was acknowledged before the call, on whatever
	// node, or an error; nil: it always has.
	Newest func(ctx context.Context) error
	// Sizes are those of the physical partitions of a table, by id; nil: none are known.
	Sizes func(ctx context.Context, table uint32) map[topology.PartitionID]Size
	// Now is the clock; Sched.Wall if nil.
	Now func() time.Time
	// ReadTimeout is how long a read is repeated because what was read could not be confirmed; 5 s if 0.
	ReadTimeout time.Duration
	// QueryTime is how long one page of a query may take, 5 s if 0, PageBytesMax how large it may be, 4 MiB if 0.
	QueryTime    time.Duration
	PageBytesMax int
	// Memory is what evaluations share, nil for no bound. Slots bound how many run at the same time; nil: any number.
	Memory *meter.Pool
	Slots  *fairshare.Slots
	// FoldsNever has queries evaluated by the node that is asked alone, over items that the replicas pass on.
	FoldsNever bool
	// SortFreely allows queries to sort by several properties without a composite index of them.
	SortFreely bool
}

// IndexLevel is the feature level from which on items are indexed.
const IndexLevel = 4

// Engine is what all clients of containers share on a node. It is safe for concurrent use.
type Engine struct {
	opts Options

	runner atomic.Pointer[Runner]
	shown  atomic.Pointer[shown]
	lsns   sequences
	// queries are those of folds.
	queries queries
	// names are those of tableByID, of tableName by uint32, so many.
	names     sync.Map
	nameCount atomic.Int64
}

// New makes an engine.
func New(o Options) *Engine {
	if o.Building == nil {
		o.Building = func(*schema.Index) bool { return false }
	}
	if o.Progress == nil {
		o.Progress = func(*schema.Index) int { return 0 }
	}
	if o.Indexes == nil {
		o.Indexes = func() bool { return true }
	}
	if o.Level == nil {
		o.Level = func() feature.Level { return feature.Newest }
	}
	if o.Restoring == nil {
		o.Restoring = func(*schema.Table) bool { return false }
	}
	if o.Now == nil {
		o.Now = o.Sched.Wall
	}
	if o.Definitions == nil {
		o.Definitions = &Definitions{}
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 5 * time.Second
	}
	if o.QueryTime == 0 {
		o.QueryTime = 5 * time.Second
	}
	if o.PageBytesMax == 0 {
		o.PageBytesMax = 4 << 20
	}
	return &Engine{opts: o}
}

// newestWait bounds the wait for the newest schema before a client is told that something is not there.
const newestWait = time.Second

// Renewed waits until this node knows every database and container whose creation was acknowledged before the call. It
// reports false where none can be new: nothing was to be waited for, or nobody answered within a second.
func (e *Engine) Renewed(ctx context.Context) bool {
	if e.opts.Newest == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, newestWait)
	defer cancel()
	return e.opts.Newest(ctx) == nil
}
