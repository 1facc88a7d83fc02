// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Replica is one replica of one physical partition.
type Replica struct {
	host *Host
	// member is what the replica is to its replica set, nil stand-alone.
	member *member
	id     topology.PartitionID
	state  atomic.Pointer[state]
	stamps stamps
	count  counters
	// schema is the least schema version that mutations must have; see RequireSchema.
	schema atomic.Uint64

	// wide is the slot of what concerns all keys at once.
	wide slot

	// active counts requests under way, plus closing once the replica is closed; drained is told when only that is left.
	active  atomic.Int64
	drained chan struct{}
	once    sync.Once

	metaMu sync.Mutex
	meta   keys.Meta // as stored, but for MaxTimestamp, which stamps knows
}

// closing is more than there can be requests.
const closing = int64(1) << 40

// state is what a replica is responsible for. It never changes; it is replaced. Its keys are of table 0 as long as the replica waits for
// its first snapshot.
type state struct {
	span  topology.Span
	keys  keys.Span
	epoch uint64
}

func newReplica(h *Host, m *keys.Meta) (*Replica, error) {
	s, err := stateOf(m)
	if err != nil {
		return nil, err
	}
	r := &Replica{host: h, id: topology.PartitionID(m.Partition), meta: *m, drained: make(chan struct{})}
	r.state.Store(s)
	r.stamps.recover(m)
	return r, nil
}

func stateOf(m *keys.Meta) (*state, error) {
	span, err := topology.SpanOf(m.Span)
	if err != nil {
		return nil, err
	}
	return &state{span: span, keys: m.Span, epoch: m.Epoch}, nil
}

// ID is the physical partition's id, Table its table.
func (r *Replica) ID() topology.PartitionID { return r.id }

// Table is the table whose rows the replica holds.
func (r *Replica) Table() uint32 { return r.state.Load().keys.Table }

// Span is what the replica holds now, at which epoch.
func (r *Replica) Span() (topology.Span, uint64) {
	s := r.state.Load()
	return s.span, s.epoch
}

func (r *Replica) epoch() uint64 { return r.state.Load().epoch }

// begin counts a request in; each success is followed by end.
func (r *Replica) begin() error {
	if r.active.Add(1) > closing {
		r.end()
		return ErrClosed
	}
	return nil
}

func (r *Replica) end() {
	if r.active.Add(-1) == closing {
		r.once.Do(func() { close(r.drained) })
	}
}

// close refuses new requests and waits for those under way.
func (r *Replica) close() {
	if r.active.Add(closing) == closing {
		r.once.Do(func() { close(r.drained) })
	}
	var d *Drive
	if r.member != nil {
		d = r.member.cluster.opts.Drive
	}
	_, _ = await(d, patience{ctx: context.Background()}, r.drained)
}

// metaWith is the meta to store with a reserved timestamp.
func (r *Replica) metaWith(maxTimestamp int64) keys.Meta {
	r.metaMu.Lock()
	defer r.metaMu.Unlock()
	m := r.meta
	m.MaxTimestamp = maxTimestamp
	return m
}

// accepts checks that a mutation belongs here and was planned for a schema that is new enough. Callers hold its latch, so that the
// answer stays true until they leave it.
func (r *Replica) accepts(m *command.Mutation) error {
	if s := r.state.Load(); !s.span.Contains(m.Token, m.Key) {
		return r.wrongRange()
	}
	if m.SchemaVersion != 0 && m.SchemaVersion < r.schema.Load() {
		return ErrStaleSchema
	}
	return nil
}

// RequireSchema makes the replica refuse mutations that were planned for an older revision of the schema, with ErrStaleSchema.
// When it returns, those that it accepted before are applied: whoever builds an index then misses none. It is Require of a node
// that stands alone.
func (r *Replica) RequireSchema(revision uint64) {
	for old := r.schema.Load(); old < revision; old = r.schema.Load() {
		if r.schema.CompareAndSwap(old, revision) {
			break
		}
	}
	for {
		release, err := r.host.freeze(context.Background(), r, wholeOwner)
		if err == nil {
			release()
			return
		} // somebody held a latch for long: it is waited for, however long
	}
}

func (r *Replica) wrongRange() error {
	s := r.state.Load()
	return &WrongRange{Partition: r.id, Have: s.span, Epoch: s.epoch}
}

// Write applies a mutation and completes done once (see Options.Durability), or returns an error and never completes done: then, but for
// ErrStopped, nothing was done. Operands that came Unstamped are stamped in place; everything is copied before Write returns. It
// waits only while a conditional write holds the logical partition.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	if r.member != nil {
		return r.member.write(ctx, m, done)
	}
	if err := r.write(ctx, m); err != nil {
		return err
	}
	r.host.committer.join(done)
	return nil
}

// WriteNow is Write for who must not wait: taken is false, and nothing was done, where Write might have to.
func (r *Replica) WriteNow(m *command.Mutation, done command.Completion) (taken bool, err error) {
	if r.member == nil {
		return false, nil
	}
	return r.member.writeNow(m, done)
}

func (r *Replica) write(ctx context.Context, m *command.Mutation) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if err := r.host.committer.admit(); err != nil {
		return err
	}
	g, err := r.host.latches.enter(ctx, r, m.Token, m.Key)
	if err == nil {
		if err = r.accepts(m); err == nil {
			err = r.commit(m, nil)
		}
		r.host.latches.leave(g)
	}
	if err != nil {
		r.host.committer.cancel()
		return err
	}
	r.count.wrote(ru.Write(m))
	return nil
}

// commit stamps and orders one mutation. The caller holds its latch.
func (r *Replica) commit(m *command.Mutation, result []byte) error {
	b := r.host.batches.Get().(*Batch)
	stamp := r.stamps.next(r.host.micros())
	stampAll(m, stamp)
	b.Mutations = append(b.Mutations[:0], m)
	b.Result = result
	if u := r.host.unsettled; u != nil {
		s := u.slot(m.Table, m.Token)
		s.enter()
		defer s.leave(u.c)
	}
	err := r.order(b, stamp)
	clear(b.Mutations)
	b.Result = nil
	r.host.batches.Put(b)
	return err
}

// order applies a batch of this replica, raising the reserved timestamp in the same batch if the stamp passes it.
func (r *Replica) order(b *Batch, stamp int64) error {
	b.Metas = b.Metas[:0]
	if stamp <= r.stamps.ceiling.Load() {
		return r.host.committer.order(b)
	}
	r.stamps.raising.Lock()
	defer r.stamps.raising.Unlock()
	ceiling := r.stamps.ceiling.Load()
	if stamp > ceiling {
		ceiling = stamp + stampReserve
		b.Metas = append(b.Metas, r.metaWith(ceiling))
	}
	err := r.host.committer.order(b)
	if err == nil {
		r.stamps.ceiling.Store(ceiling)
	}
	return err
}

// stampAll gives the leader's stamp to the mutation and its unstamped operands.
func stampAll(m *command.Mutation, stamp int64) {
	m.Timestamp = stamp
	for i := range m.Ops {
		if m.Ops[i].Kind != command.OpIndex {
			row.Stamp(m.Ops[i].Operand, stamp)
		}
	}
}

// Read passes what c finds in this partition to v, in order. A read of a range needs the current epoch, if it names one: the
// sender goes on behind the end it believes in.
func (r *Replica) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	return r.read(ctx, c, v, false)
}

// ReadHere is Read for a coordinator on this node: a follower serves all levels, having asked the leader what it must
// have applied.
func (r *Replica) ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error {
	return r.read(ctx, c, v, true)
}

func (r *Replica) read(ctx context.Context, c *command.Read, v command.Visitor, here bool) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if r.member != nil {
		return r.member.read(ctx, c, v, here)
	}
	s := r.state.Load()
	if c.Key != nil && !s.span.Contains(c.Token, c.Key) || c.Key == nil && c.Epoch != 0 && c.Epoch != s.epoch {
		return r.wrongRange()
	}
	m := r.host.readers.Get().(*meter)
	m.begin(v)
	var err error
	if c.Key != nil || m.narrow(c, s) {
		if c.Key == nil {
			c = &m.sub
		}
		err = r.host.store.Read(ctx, c, m)
		if u := r.host.unsettled; err == nil && u != nil && r.unsettled(u, c) {
			err = u.c.settle(ctx)
		}
	}
	r.count.read(ru.Read(ru.ShapeOf(c, m.rows), m.rows, m.bytes), m.rows, m.bytes)
	m.begin(nil)
	r.host.readers.Put(m)
	return err
}

// unsettled reports whether a crash could take back what c has just read. Scans do not look which keys they met.
func (r *Replica) unsettled(u *unsettled, c *command.Read) bool {
	if c.Key == nil {
		return u.c.waiting.Load() > 0
	}
	return u.slot(c.Table, c.Token).open(u.c) || r.wide.open(u.c)
}

// Sweep removes what nobody can see any more, and completes done or returns an error as Write does. It needs no latch: what
// readers see does not change.
func (r *Replica) Sweep(s *command.Sweep, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if r.member != nil {
		return r.member.sweep(s, done)
	}
	if err := r.host.committer.admit(); err != nil {
		return err
	}
	if err := r.host.store.Sweep(s); err != nil {
		r.host.committer.cancel()
		return err
	}
	r.host.committer.join(done)
	return nil
}

// Truncate removes all rows, and their entries in the given indexes of the table, and completes done or returns an error as Write does. Writes wait meanwhile.
func (r *Replica) Truncate(ctx context.Context, indexes []uint32, done command.Completion) error {
	if r.member != nil {
		return r.member.truncate(ctx, indexes, done)
	}
	if err := r.truncate(ctx, indexes); err != nil {
		return err
	}
	r.host.committer.join(done)
	return nil
}

func (r *Replica) truncate(ctx context.Context, indexes []uint32) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if err := r.host.committer.admit(); err != nil {
		return err
	}
	release, err := r.host.freeze(ctx, r, wholeOwner)
	if err == nil {
		r.wide.enter()
		err = r.host.store.Truncate(r.state.Load().keys, indexes)
		r.wide.leave(r.host.committer)
		release()
	}
	if err != nil {
		r.host.committer.cancel()
	}
	return err
}
