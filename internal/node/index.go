// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// buildPrefix begins the keys (in keys.MetaID) of indexes that are still being built, so that a restart goes on with them.
	buildPrefix = "build/"
	// buildChunk is how many rows a build reads before it writes their entries.
	buildChunk = 2000
	// buildWait is how long CREATE INDEX waits, so that the index of a small table is ready when the statement returns.
	buildWait = time.Second
	// buildRetry is the pause after a failed attempt.
	buildRetry = time.Second
	// publicationPause is the pause before a chunk is tried again because the table was being altered.
	publicationPause = 5 * time.Millisecond
)

// tableIndex is an index and its table.
type tableIndex struct {
	table *schema.Table
	index *schema.Index
}

func (t tableIndex) key() []byte {
	return binary.BigEndian.AppendUint32([]byte(buildPrefix), t.index.ID)
}

// newIndexes lists the indexes that a change added to tables that existed before.
func newIndexes(old, next *schema.Schema) []tableIndex {
	before := indexIDs(old)
	var out []tableIndex
	for _, t := range storedTables(next) {
		for _, ix := range t.SortedIndexes() {
			if !before[ix.ID] {
				out = append(out, tableIndex{t, ix})
			}
		}
	}
	return out
}

// indexBuilder writes the entries of rows that were there before their index. Later writes make their own entries.
type indexBuilder struct {
	store       *storage.Store
	coordinator *coordinator.Coordinator
	schema      func() *schema.Schema // as it is now
	log         *slog.Logger
	ctx         context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup

	mu       sync.RWMutex
	building map[uint32]bool
}

func newIndexBuilder(s *storage.Store, c *coordinator.Coordinator, now func() *schema.Schema, log *slog.Logger) *indexBuilder {
	b := &indexBuilder{store: s, coordinator: c, schema: now, log: log, building: map[uint32]bool{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Building reports whether an index is not complete yet.
func (b *indexBuilder) Building(ix *schema.Index) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.building[ix.ID]
}

// begin marks the new indexes as being built; it is called before anybody can see them.
func (b *indexBuilder) begin(old, next *schema.Schema) []tableIndex {
	fresh := newIndexes(old, next)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ti := range fresh {
		b.building[ti.index.ID] = true
	}
	return fresh
}

// run builds in the background and waits up to buildWait.
func (b *indexBuilder) run(builds []tableIndex) {
	if len(builds) == 0 {
		return
	}
	done := make(chan struct{})
	b.wg.Go(func() {
		defer close(done)
		for _, ti := range builds {
			b.build(ti)
		}
	})
	t := time.NewTimer(buildWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// resume goes on with the builds that a stop interrupted.
func (b *indexBuilder) resume(s *schema.Schema) error {
	pending := map[uint32]bool{}
	err := b.store.Scan(keys.MetaID, []byte(buildPrefix), func(sub, _ []byte) error {
		if len(sub) == len(buildPrefix)+4 {
			pending[binary.BigEndian.Uint32(sub[len(buildPrefix):])] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for unfinished indexes: %w", err)
	}
	var builds []tableIndex
	for _, ti := range newIndexes(schema.New(), s) {
		if pending[ti.index.ID] {
			b.building[ti.index.ID] = true
			builds = append(builds, ti)
		}
	}
	if len(builds) > 0 {
		b.wg.Go(func() {
			for _, ti := range builds {
				b.build(ti)
			}
		})
	}
	return nil
}

// close ends the builds; resume goes on with them.
func (b *indexBuilder) close() {
	b.cancel()
	b.wg.Wait()
}

// build builds one index, as often as it takes.
func (b *indexBuilder) build(ti tableIndex) {
	began := time.Now()
	for {
		rows, err := b.scan(ti)
		gone := errors.Is(err, errIndexGone)
		if err == nil || gone {
			err = b.finish(ti)
		}
		if err == nil && gone {
			return
		}
		if err == nil {
			b.log.LogAttrs(b.ctx, slog.LevelInfo, "index built", slog.String("table", ti.table.String()), slog.String("index", ti.index.Name),
				slog.Int("rows", rows), slog.Duration("took", time.Since(began)))
			return
		}
		if b.ctx.Err() != nil {
			return // the next start goes on
		}
		b.log.LogAttrs(b.ctx, slog.LevelWarn, "index build failed and is tried again", slog.String("index", ti.index.Name), slog.String("error", err.Error()))
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(buildRetry):
		}
	}
}

func (b *indexBuilder) finish(ti tableIndex) error {
	batch := b.store.NewBatch()
	defer batch.Close()
	batch.Delete(keys.MetaID, ti.key())
	if err := batch.Commit(); err != nil {
		return err
	}
	if err := b.store.Sync(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.building, ti.index.ID)
	return nil
}

// errIndexGone ends the build of an index that was dropped meanwhile, or whose table was.
var errIndexGone = errors.New("the index was dropped")

// current is the index and its table as they are now: a table may be altered while its index is being built.
func (b *indexBuilder) current(ti tableIndex) (tableIndex, error) {
	t := b.schema().TableByID(ti.table.ID)
	if t == nil {
		return ti, errIndexGone
	}
	for _, ix := range t.Indexes {
		if ix.ID == ti.index.ID {
			return tableIndex{t, ix}, nil
		}
	}
	return ti, errIndexGone
}

// scan writes the entries of every row of the table, chunk by chunk.
func (b *indexBuilder) scan(ti tableIndex) (rows int, err error) {
	v := new(buildVisitor)
	read := command.Read{Table: ti.table.ID, Range: token.Full, Level: dberr.One}
	for {
		if v.ti, err = b.current(ti); err != nil {
			return rows, err
		}
		v.mutations, v.rows, v.full, v.whole = nil, 0, false, false
		read.Now, read.Statics, read.Dropped = time.Now().Unix(), len(v.ti.table.Statics) > 0, v.ti.table.DroppedIDs()
		err := b.chunk(&read, v)
		if errors.Is(err, coordinator.ErrStaleSchema) && b.ctx.Err() == nil {
			time.Sleep(publicationPause) // the replicas know the new table a moment before everybody else
			continue
		}
		if err != nil {
			if _, gone := b.current(ti); gone != nil {
				err = gone
			}
			return rows, err
		}
		rows += v.rows
		if !v.full {
			return rows, nil
		}
		read.AfterKey, read.AfterToken, read.AfterClustering, read.AfterPartition = v.key, v.token, v.clustering, v.whole
	}
}

// chunk reads some rows and writes their entries.
func (b *indexBuilder) chunk(read *command.Read, v *buildVisitor) error {
	if err := b.coordinator.Read(b.ctx, read, v); err != nil || len(v.mutations) == 0 {
		return err
	}
	done := make(waitDone, 1)
	b.coordinator.Write(b.ctx, v.mutations, coordinator.WriteOptions{Level: dberr.One, Type: "UNLOGGED_BATCH"}, done)
	return <-done
}

// waitDone is a completion somebody waits for.
type waitDone chan error

// Done passes the outcome on.
func (w waitDone) Done(err error) { w <- err }

// buildVisitor turns rows into index entries.
type buildVisitor struct {
	ti         tableIndex
	mutations  []command.Mutation
	rows       int
	full       bool
	whole      bool // the last partition was read to its end
	token      token.Token
	key        []byte
	clustering []byte
}

// Partition begins a mutation for the logical partition.
func (v *buildVisitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if len(v.mutations) >= buildChunk {
		v.full, v.whole = true, true // go on behind the partition before this one
		return command.Stop, nil
	}
	v.token, v.key, v.clustering = tok, append([]byte(nil), key...), nil
	m := command.Mutation{Table: v.ti.table.ID, Token: tok, Key: v.key, SchemaVersion: v.ti.table.Revision}
	if static != nil && v.ti.table.Column(v.ti.index.Column).Kind == schema.Static {
		if err := v.enter(&m, nil, static); err != nil {
			return command.Stop, err
		}
	}
	v.mutations = append(v.mutations, m)
	return command.More, nil
}

// Row adds the entries of a row.
func (v *buildVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m := &v.mutations[len(v.mutations)-1]
	v.clustering = append([]byte(nil), clustering...)
	if v.ti.table.Column(v.ti.index.Column).Kind != schema.Static {
		if err := v.enter(m, v.clustering, r); err != nil {
			return command.Stop, err
		}
	}
	if v.rows++; v.rows >= buildChunk {
		v.full = true
		return command.Stop, nil
	}
	return command.More, nil
}

// enter adds the entries of a row.
func (v *buildVisitor) enter(m *command.Mutation, clustering []byte, r *row.Row) error {
	ops, err := expr.IndexOps(v.ti.table, v.ti.index, m.Key, clustering, r)
	for i := range ops {
		ops[i].Value = bytes.Clone(ops[i].Value) // a view over the row
	}
	m.Ops = append(m.Ops, ops...)
	return err
}

// indexHolds returns what tells a sweep whether an entry is still true: that the row has the value.
func indexHolds(t *schema.Table, ix *schema.Index) func(r *row.Row, value []byte) bool {
	if t.Column(ix.Column).Kind.IsKey() {
		return func(r *row.Row, _ []byte) bool { return r.Exists() } // a key column never changes
	}
	return func(r *row.Row, value []byte) bool {
		values, err := expr.IndexValues(t, ix, nil, nil, r)
		return err != nil || slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, value) })
	}
}
