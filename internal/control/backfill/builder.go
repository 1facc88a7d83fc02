// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// chunkRows is the number of rows that a build reads before it writes their index entries.
	chunkRows = 2000
	// chunkRowBytes is the maximum size of a chunk's rows, and chunkEntryBytes is the maximum size of a chunk's
	// entries. The last row may exceed both limits. mutationBytes is the maximum size of one mutation. The entries of a
	// large logical partition are divided among several mutations.
	chunkRowBytes   = 16 << 20
	chunkEntryBytes = 4 << 20
	mutationBytes   = 256 << 10
	// chunkExamined is the number of empty keys that a command may examine.
	chunkExamined = 100_000
	// awaitMax is the maximum time for which CREATE INDEX waits for the build, so that the index of a small table is
	// ready when the statement returns.
	awaitMax = time.Second
	// retryPause is the pause after a failed attempt. It is also the interval at which Run checks whether this node
	// should build indexes.
	retryPause = time.Second
	// publicationPause is the pause before the retry of a chunk that failed because the table was being altered.
	publicationPause = 5 * time.Millisecond
	// yieldMax is the maximum time for which a build yields to clients while the machine is overloaded or the table's
	// throughput is exhausted. After this time, the build continues with the priority of a client.
	yieldMax = time.Second
	// savePause is the pause between two saves of a build's progress. After a crash, the build repeats the work since
	// the last save.
	savePause = 2 * time.Second
	// overloadedPause is the pause between checks whether the machine is still overloaded.
	overloadedPause = 20 * time.Millisecond
)

// Table gives access to the rows of all tables on all nodes.
type Table interface {
	// Read passes rows to a visitor like coordinator.Coordinator.Read. ErrAgain means that the read can be retried.
	Read(ctx context.Context, read *command.Read, v command.Visitor) error
	// Write returns when all mutations are acknowledged at the given level. Like Read, it may return ErrAgain. If the
	// error is a *dberr.Overloaded, the mutations in left have not been written.
	Write(ctx context.Context, ms []command.Mutation, level dberr.Consistency) (left []command.Mutation, err error)
	// Require makes all partitions of a table reject mutations that were planned for an older revision. When Require
	// returns, all previously accepted mutations have been applied.
	Require(ctx context.Context, table uint32, revision uint64) error
}

// ErrAgain means that a request failed because the table was being altered or moved. The request can be retried.
var ErrAgain = errors.New("the table is being changed")

// Entries returns the entries of a row in an index. The values of the entries may alias the row.
type Entries func(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error)

// Options holds the dependencies of a Builder. All fields are required unless their comments state otherwise.
type Options struct {
	Metadata *meta.Keeper
	Table    Table
	Entries  Entries
	// Catalog holds the schema with which this node plans statements. It is a *catalog.Catalog.
	Catalog interface{ Snapshot() *schema.Schema }
	// Member reports whether this node leads the meta partition. Only this leader builds indexes. Member is nil on a
	// standalone node.
	Member interface{ LeadsMeta() bool }
	Log    *slog.Logger
	// Clients reports whether this machine is overloaded. It may be nil.
	Clients interface{ Overloaded() bool }
	// Clock determines which rows have expired and need no entries. The default is the wall clock of Sched.
	Clock *peers.NodeClock
	// SavePause is the interval at which the progress of a build is saved. The default is 2 s.
	SavePause time.Duration
	// Lists assigns lists to vector indexes. It is a *schemachange.Changer. If it is nil, vector indexes get no lists.
	Lists interface {
		// SupportsLists reports whether all nodes support lists.
		SupportsLists() bool
		SetLists(ctx context.Context, c *schema.SetLists) error
	}
	// ListsPause is the interval at which the Builder checks whether vector indexes need other lists. The default is 20
	// s. ListsRows is the number of rows at which a table's vector index gets lists. The default is 2,500.
	ListsPause time.Duration
	ListsRows  int64
	// Sched provides time and waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Builder builds incomplete indexes. It is safe for concurrent use.
type Builder struct {
	Options
	wake chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by Wake
	// built is the index that this node is building. at is the progress of this build.
	built uint32
	at    *meta.Build

	trained time.Time // time of the last check for lists
}

// New returns a Builder. The Builder builds indexes while Run runs.
func New(o Options) *Builder {
	if o.SavePause == 0 {
		o.SavePause = savePause
	}
	o.ListsPause, o.ListsRows = cmp.Or(o.ListsPause, listsPause), cmp.Or(o.ListsRows, listsRows)
	return &Builder{Options: o, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// leads reports whether this node builds indexes.
func (b *Builder) leads() bool { return b.Member == nil || b.Member.LeadsMeta() }

// expiredBefore returns a time in seconds that has passed on the clocks of most nodes.
func (b *Builder) expiredBefore() int64 {
	if b.Clock == nil {
		return b.Sched.Wall().Unix()
	}
	return b.Clock.EarliestSeconds()
}

// Building reports whether an index is incomplete.
func (b *Builder) Building(ix *schema.Index) bool { return b.Metadata.State().Building[ix.ID] }

// Progress returns the progress of an index build in percent of the ring. If another node builds the index, Progress
// returns the saved progress.
func (b *Builder) Progress(ix *schema.Index) int { return b.BuildOf(ix).Percent() }

// BuildOf returns the progress of an index build, or nil if no progress has been saved.
func (b *Builder) BuildOf(ix *schema.Index) *meta.Build {
	b.mu.Lock()
	id, at := b.built, b.at
	b.mu.Unlock()
	if id == ix.ID && at != nil && at.Policy == ix.Policy() {
		return at
	}
	if noted := b.Metadata.State().Builds[ix.ID]; noted != nil && noted.Policy == ix.Policy() {
		return noted
	}
	return nil
}

// saveProgress records the progress of an index build at intervals.
func (b *Builder) saveProgress(ctx context.Context, id uint32, at *meta.Build, saved *time.Time) {
	b.mu.Lock()
	b.built, b.at = id, at
	b.mu.Unlock()
	if b.Sched.Since(*saved) < b.SavePause {
		return
	}
	*saved = b.Sched.Now()
	_, err := b.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		if _, ix := s.Schema.IndexByID(id); !s.Building[id] || ix == nil || ix.Policy() != at.Policy {
			return s, nil // the index was dropped, or must be built with another policy
		}
		return s.WithBuild(id, at), nil
	})
	if err != nil && ctx.Err() == nil {
		b.Log.LogAttrs(ctx, slog.LevelInfo, "cannot save the progress of an index build",
			slog.Uint64("index", uint64(id)), slog.String("error", err.Error()))
	}
}

// Wake notifies the Builder that an index may need to be built or has been built. It does not block.
func (b *Builder) Wake() {
	b.mu.Lock()
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Await waits up to awaitMax for indexes to be complete.
func (b *Builder) Await(ctx context.Context, indexes []*schema.Index) {
	if len(indexes) == 0 {
		return
	}
	for until := b.Sched.Now().Add(awaitMax); ; {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		left := b.Sched.Until(until)
		if left <= 0 || !slices.ContainsFunc(indexes, b.Building) {
			return
		}
		if _, err := sched.Await(b.Sched, ctx, changed, left); err != nil {
			return
		}
	}
}

// Run builds indexes until ctx ends. The next Run, possibly on another node, resumes incomplete builds.
func (b *Builder) Run(ctx context.Context) {
	for {
		for _, id := range slices.Sorted(maps.Keys(b.Metadata.State().Building)) {
			if ctx.Err() == nil && b.leads() {
				b.trainFirst(ctx, id)
				b.Build(ctx, id)
			}
		}
		if b.leads() {
			b.trainDue(ctx)
		}
		if b.Sched.Sleep(ctx, retryPause, b.wake) != nil {
			return
		}
	}
}

// Build builds one index. If the build fails, Build logs the error, and the index remains incomplete.
func (b *Builder) Build(ctx context.Context, id uint32) {
	began := b.Sched.Now()
	var rows int
	t, ix, err := b.current(id)
	policy := ""
	if err == nil {
		policy = ix.Policy()
	}
	if err == nil {
		// All mutations that were planned without the index are now in the log or will be rejected.
		err = b.Table.Require(ctx, t.ID, t.Revision)
	}
	if err == nil {
		rows, err = b.scan(ctx, id, policy)
	}
	gone := errors.Is(err, errDropped)
	if err == nil || gone {
		_, err = b.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
			if !s.Building[id] {
				return s, nil
			}
			if _, now := s.Schema.IndexByID(id); gone && now != nil || now != nil && now.Policy() != policy {
				// The metadata is newer than this node's schema, or the index must be built with another policy. A
				// later attempt will succeed.
				return s, nil
			}
			return s.WithBuilding(id, false), nil
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		b.Log.LogAttrs(ctx, slog.LevelWarn, "index build failed; retrying",
			slog.Uint64("index", uint64(id)), slog.String("error", err.Error()))
	case !gone:
		b.Log.LogAttrs(ctx, slog.LevelInfo, "index built", slog.String("table", t.String()),
			slog.String("index", ix.Name),
			slog.Int("rows", rows), slog.Duration("took", b.Sched.Since(began)))
	}
}

// errDropped ends the build of an index after the index or its table has been dropped.
var errDropped = errors.New("the index was dropped")

// current returns the current versions of an index and its table, because the table may be altered during the build.
func (b *Builder) current(id uint32) (*schema.Table, *schema.Index, error) {
	t, ix := b.Catalog.Snapshot().IndexByID(id)
	if ix == nil {
		return nil, nil, errDropped
	}
	return t, ix, nil
}

// scan writes the entries of all rows of the table in chunks. It starts at the end of the previous build. rows is the
// total number of rows.
func (b *Builder) scan(ctx context.Context, id uint32, policy string) (rows int, err error) {
	v := &visitor{entries: b.Entries}
	read := command.Read{Range: token.Full, Level: dberr.Quorum}
	saved := b.Sched.Now()
	if at := b.Metadata.State().Builds[id]; at != nil && at.Policy == policy {
		rows = int(at.Rows)
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = at.Key, at.Token, at.Clustering,
			at.WholePartition
	}
	for {
		if v.table, v.index, err = b.current(id); err != nil {
			return rows, err
		}
		v.begin(&read)
		read.Table, read.Now = v.table.ID, b.expiredBefore()
		read.Statics, read.Dropped = len(v.table.Statics) > 0, v.table.Hidden()
		if err := b.yield(ctx); err != nil {
			return rows, err
		}
		err := b.chunk(ctx, &read, v)
		if errors.Is(err, ErrAgain) && b.Sched.Sleep(ctx, publicationPause) == nil {
			continue // the replicas receive a new table before the other components
		}
		if err != nil {
			if _, _, gone := b.current(id); gone != nil {
				err = gone
			}
			return rows, err
		}
		rows += v.rows
		if !v.full {
			return rows, nil
		}
		b.saveProgress(ctx, id, &meta.Build{Policy: policy, Token: v.token, Key: v.key, Clustering: v.clustering,
			WholePartition: v.whole, Rows: int64(rows)}, &saved)
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = v.key, v.token, v.clustering,
			v.whole
	}
}

// yield waits while the machine is overloaded, for up to yieldMax.
func (b *Builder) yield(ctx context.Context) error {
	until := b.Sched.Now().Add(yieldMax)
	for b.Clients != nil && b.Clients.Overloaded() && b.Sched.Now().Before(until) {
		if err := b.Sched.Sleep(ctx, overloadedPause); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// chunk reads rows and writes their entries. Reads and writes wait while the throughput of the table is exhausted. A
// retry does not repeat completed mutations.
func (b *Builder) chunk(ctx context.Context, read *command.Read, v *visitor) error {
	began := *v
	err := b.retryThrottled(ctx, func(who fairshare.Principal) (bool, error) {
		*v = began
		read.Principal = who
		return false, b.Table.Read(ctx, read, v)
	})
	if v.end(); err != nil || len(v.mutations) == 0 {
		return err
	}
	return b.retryThrottled(ctx, func(who fairshare.Principal) (progress bool, err error) {
		for i := range v.mutations {
			v.mutations[i].Principal = who
		}
		left, err := b.Table.Write(ctx, v.mutations, dberr.Quorum)
		if busy := new(dberr.Overloaded); errors.As(err, &busy) {
			progress = len(left) < len(v.mutations)
			v.mutations = left
		}
		return progress, err
	})
}

// retryThrottled retries a request with low priority while the request is throttled. After yieldMax without progress,
// it uses the priority of clients, so that clients cannot starve a build.
func (b *Builder) retryThrottled(
	ctx context.Context, do func(who fairshare.Principal) (progress bool, err error),
) error {
	for since := b.Sched.Now(); ; {
		who := fairshare.Internal
		who.Low = b.Sched.Since(since) < yieldMax
		progress, err := do(who)
		busy, ok := errors.AsType[*dberr.Overloaded](err)
		if !ok {
			return err
		}
		if progress {
			since = b.Sched.Now()
		}
		if err := b.Sched.Sleep(ctx, max(busy.RetryAfter, publicationPause)); err != nil {
			return err
		}
	}
}
