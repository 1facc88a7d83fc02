// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Coordinator sends commands to the partitions. *coordinator.Coordinator implements it.
type Coordinator interface {
	Read(ctx context.Context, q *command.Read, v command.Visitor) error
	ConditionalWrite(ctx context.Context, cond *command.Conditional, o coordinator.WriteOptions,
		done command.Completion)
	Topology() *topology.Snapshot
	Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// Store makes changes of the schema and of database resources durable and distributes them. *schemachange.Changer
// implements it. See ddl.Store.
type Store interface {
	Apply(ctx context.Context, c schema.Change, role string) (*schema.Schema, []schema.Event, error)
	// Resources returns the users, permissions, and client encryption keys that this node knows, and the version of
	// the metadata that contains them.
	Resources() (r *dbresource.State, version uint64)
	// ApplyResources makes a change of the resources. revision is the version of the metadata after the change.
	ApplyResources(ctx context.Context,
		change func(s *schema.Schema, r *dbresource.State, revision uint64) (*dbresource.State, error)) error
}

// IndexBuilds reports the progress of index builds.
type IndexBuilds interface {
	// Building reports whether an index is incomplete.
	Building(ix *schema.Index) bool
	// Progress returns the build progress of an incomplete index in percent, as known to this node.
	Progress(ix *schema.Index) int
}

// noBuilds is the IndexBuilds of a node whose indexes are complete.
type noBuilds struct{}

func (noBuilds) Building(*schema.Index) bool { return false }
func (noBuilds) Progress(*schema.Index) int  { return 0 }

// Levels determines the feature level. membership.Levels implements it.
type Levels interface {
	Current() feature.Level
}

// newestLevel is the Levels that is used if Options.Levels is nil.
type newestLevel struct{}

func (newestLevel) Current() feature.Level { return feature.Newest }

// Restores reports whether a table is being restored from a backup. During a restore, some items of the table are
// missing. *backup.Restorer implements it.
type Restores interface {
	Restoring(t *schema.Table) bool
}

// Sizes returns the sizes of a table's physical partitions by partition ID. *stats.UsageReporter implements it.
type Sizes interface {
	ContainerSizes(ctx context.Context, table uint32) map[topology.PartitionID]Size
}

// Metadata is the metadata of the cluster. *meta.Keeper implements it.
type Metadata interface {
	// AwaitLatest waits until this node's schema contains every change that any node acknowledged before the call.
	AwaitLatest(ctx context.Context) error
}

// Options configures an Engine. Catalog, Coordinator, and Store are required.
type Options struct {
	Catalog     *catalog.Catalog
	Coordinator Coordinator
	Store       Store
	// Definitions caches parsed definitions. If it is nil, the engine creates a new cache.
	Definitions *Definitions
	// Sched is the scheduler of a simulation, or nil.
	Sched *sched.Scheduler
	// Builds reports the progress of index builds. If it is nil, all indexes are complete.
	Builds IndexBuilds
	// Levels returns the feature level at which the cluster's nodes write. If it is nil, the level is feature.Newest.
	Levels Levels
	// Restores may be nil if no table is being restored. Sizes may be nil if no sizes are known.
	Restores Restores
	Sizes    Sizes
	// Metadata is the metadata of the cluster. If it is nil, the schema is always current.
	Metadata Metadata
	// Clock is the clock. If it is nil, the engine uses Sched.
	Clock sched.Clock
	// ReadTimeout limits the time for retries of a read whose result could not be confirmed. The default is 5 s.
	ReadTimeout time.Duration
	// QueryTime limits the execution time of a query page. The default is 5 s. PageBytesMax limits the size of the
	// page. The default is 4 MiB.
	QueryTime    time.Duration
	PageBytesMax int
	// Memory is the memory pool of evaluations. If it is nil, the memory is unlimited. Slots limits concurrent
	// evaluations. If it is nil, their number is unlimited.
	Memory *meter.Pool
	Slots  *fairshare.Slots
	// NoPushdown disables the pushdown of aggregations. The coordinating node then evaluates queries over items that
	// replicas return.
	NoPushdown bool
	// SortFreely allows queries to sort by several properties without a composite index.
	SortFreely bool
}

// IndexLevel is the feature level from which items are indexed.
const IndexLevel = 4

// Engine serves all container clients of a node. Engine is safe for concurrent use.
type Engine struct {
	opts Options

	definer
	sequences
	runner atomic.Pointer[Runner]
	// queries caches compiled queries for pushdown.
	queries queries
	totals  textTotals
}

// New returns an engine.
func New(o Options) *Engine {
	if o.Builds == nil {
		o.Builds = noBuilds{}
	}
	if o.Levels == nil {
		o.Levels = newestLevel{}
	}
	if o.Clock == nil {
		o.Clock = o.Sched
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
	d := &directory{catalog: o.Catalog, definitions: o.Definitions, metadata: o.Metadata}
	return &Engine{opts: o,
		definer: definer{directory: d, store: o.Store, builds: o.Builds, levels: o.Levels, clock: o.Clock}}
}
