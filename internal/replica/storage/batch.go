// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Writer applies commands.
type Writer struct {
	*engine
	*rows
	*disk
}

// Batch collects changes that are applied atomically. It is not safe for concurrent use.
type Batch struct {
	s *Writer
	b *pebble.Batch
	// grows is true if the batch takes disk space. A full disk rejects such a batch.
	grows bool
	// weakens is true if the batch removes deletions from headers.
	weakens bool
	// sweeps is true if a sweep has removed data.
	sweeps bool
	// metas is true if the batch stores or removes a partition's meta. progress is the size of the progress operands in
	// bytes.
	metas    bool
	progress int
	// mutates is true if the batch contains a mutation of a table.
	mutates bool
	// annSlots holds the annCache slots of the batch's index entries.
	annSlots []int
	// entry is a scratch buffer for the key of an index entry.
	entry []byte
	// touched holds the batch's live rows and deletions for the tombstone cache.
	touched []touch
	// hot holds the keys whose operands the batch must merge after the commit.
	hot   []hot
	arena []byte
	// stamp is the timestamp of the last mutation, in microseconds.
	stamp int64
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch starts a batch. The caller must call Close.
func (s *Writer) NewBatch() *Batch {
	b := batches.Get().(*Batch)
	b.s, b.b, b.grows, b.weakens, b.sweeps, b.mutates, b.stamp = s, s.db.NewBatch(), false, false, false, false, 0
	b.annSlots, b.metas, b.progress = b.annSlots[:0], false, 0
	return b
}

// Close discards an uncommitted batch and releases the memory of a committed batch.
func (b *Batch) Close() {
	if b.b == nil {
		return
	}
	_ = b.b.Close()
	clear(b.touched)
	clear(b.hot)
	b.b, b.s, b.touched, b.hot = nil, nil, b.touched[:0], b.hot[:0]
	if b.arena = b.arena[:0]; cap(b.arena) < keptMax {
		batches.Put(b)
	}
}

// Apply applies mutations atomically. The mutations survive a crash after the next Sync.
func (s *Writer) Apply(ms ...command.Mutation) error {
	b := s.NewBatch()
	defer b.Close()
	for i := range ms {
		if err := b.Mutate(&ms[i]); err != nil {
			return err
		}
	}
	return b.Commit()
}

// Mutate adds a mutation. The mutation's operands must have timestamps. If Mutate returns an error, the caller must
// discard the batch.
func (b *Batch) Mutate(m *command.Mutation) error {
	b.stamp, b.mutates = m.Timestamp, true
	if len(m.Key) > keys.MaxLen {
		return fmt.Errorf("mutation of table %d: partition key of %d bytes", m.Table, len(m.Key))
	}
	for i := range m.Ops {
		op := &m.Ops[i]
		switch op.Kind {
		case command.OpIndex:
			b.index(m, op)
			continue
		case command.OpChange:
			b.change(m, op)
			continue
		}
		if row.Timestamp(op.Operand) == row.Unstamped {
			return fmt.Errorf("mutation of table %d: %w", m.Table, ErrUnstamped)
		}
		var err error
		switch op.Kind {
		case command.OpRow:
			err = b.merge(m, keys.Row, op.Clustering, op.Operand)
		case command.OpHeader:
			err = b.header(m, op)
		default:
			err = fmt.Errorf("unknown operand kind %d", op.Kind)
		}
		if err != nil {
			return fmt.Errorf("mutation of table %d: %w", m.Table, err)
		}
	}
	return nil
}

// header adds a header operand. The deletions and the static cells of the operand have separate keys.
func (b *Batch) header(m *command.Mutation, op *command.Op) error {
	deletions, static := row.Split(op.Operand)
	if deletions != nil {
		if err := b.s.mark(m.Table, flagDeletions); err != nil {
			return err
		}
		if err := b.merge(m, keys.Deletions, nil, deletions); err != nil {
			return err
		}
	}
	if static == nil {
		return nil
	}
	if err := b.s.mark(m.Table, flagStatics); err != nil {
		return err
	}
	return b.merge(m, keys.Static, nil, static)
}

// merge adds an operand and encodes the operand's key directly into the batch. It rejects malformed operands.
func (b *Batch) merge(m *command.Mutation, kind byte, clustering, operand []byte) error {
	live, due, err := row.Check(operand)
	if err != nil {
		return err
	}
	n := prefixLen(m)
	d := b.b.MergeDeferred(n+1+len(clustering), len(operand))
	key := append(keys.AppendPartition(d.Key[:0], m.Table, m.Token, m.Key), kind)
	_ = append(key, clustering...)
	copy(d.Value, operand)
	_ = d.Finish() // Finish fails only for indexed batches
	b.s.m.operands.Add(1)
	b.grows = b.grows || live
	if kind != keys.Static {
		t := touch{prefix: d.Key[:n:n], live: live}
		if kind == keys.Deletions {
			t.operand = d.Value
		} else {
			t.clustering = d.Key[n+1:]
		}
		b.touched = append(b.touched, t) // the bytes of t stay valid until Close
	}
	if len(d.Value) >= largeMin/largeByte {
		b.s.large.note(d.Key[:n], len(d.Value), 0)
	}
	if count := b.s.hot.add(d.Key); count > 0 {
		b.hot = append(b.hot, hot{bytes.Clone(d.Key), count, len(d.Key) + len(d.Value)})
	}
	class := keys.SweepRows
	if row.HasLifetime(operand) {
		if in := b.s.lookupTable(m.Table).installed.Load(); in != nil {
			class, due = keys.SweepItems, min(due, in.Lifetimes.Deadline(operand))
		}
	}
	b.note(class, due, d.Key) // note invalidates d, so this call must be last
	return nil
}

// prefixLen returns the length of the key prefix of the mutation's partition.
func prefixLen(m *command.Mutation) int { return 4 + 8 + 2 + min(len(m.Key), keys.MaxLen) }

func (b *Batch) index(m *command.Mutation, op *command.Op) {
	// The length of the key is unknown in advance because the encoding escapes some bytes of the value.
	b.entry = keys.AppendIndex(b.entry[:0], op.Index, op.Value, m.Token, m.Key, op.Clustering)
	n := len(b.entry)
	if op.Index&keys.HintSpace != 0 {
		b.entry = binary.BigEndian.AppendUint64(b.entry, uint64(m.Timestamp))
	}
	if op.Index&keys.OrderedIndex != 0 && len(op.Value) >= packHead {
		k := packKey{op.Index, [packHead]byte(op.Value)}
		b.annSlots = append(b.annSlots, k.slot())
	}
	_ = b.b.Set(b.entry[:n], b.entry[n:], nil) // Set fails only for indexed batches
	b.grows = true
	b.s.m.entries.Add(1)
}

// Set stores a system key. id must be below keys.FirstTable.
func (b *Batch) Set(id uint32, sub, value []byte) {
	d := b.b.SetDeferred(4+len(sub), len(value))
	keys.AppendSystem(d.Key[:0], id, sub)
	copy(d.Value, value)
	_ = d.Finish()
}

// Delete removes a system key.
func (b *Batch) Delete(id uint32, sub []byte) {
	d := b.b.DeleteDeferred(4 + len(sub))
	keys.AppendSystem(d.Key[:0], id, sub)
	_ = d.Finish()
}

// Set durably stores one system key.
func (s *Writer) Set(id uint32, sub, value []byte) error {
	b := s.NewBatch()
	defer b.Close()
	b.Set(id, sub, value)
	if err := b.Commit(); err != nil {
		return err
	}
	return s.Sync()
}

// PutMeta stores the meta of a partition.
func (b *Batch) PutMeta(m *keys.Meta) {
	b.metas = true
	b.arena = m.Append(b.arena[:0])
	key := keys.AppendMeta(make([]byte, 0, 12), keys.PartitionID, m.Partition)
	_ = b.b.Set(key, b.arena, nil)
}

// PutDedupe stores a dedupe record in its partition. Sweeps compute the record's age from the timestamp of the last
// mutation in the batch.
func (b *Batch) PutDedupe(table uint32, tok token.Token, pk []byte, id command.DedupeID, value []byte) {
	b.arena = keys.AppendDedupe(b.arena[:0], table, tok, pk, id)
	n := len(b.arena)
	b.arena = append(binary.BigEndian.AppendUint64(b.arena, uint64(b.stamp/1e6)), value...)
	_ = b.b.Set(b.arena[:n], b.arena[n:], nil)
	b.note(keys.SweepDedupe, b.stamp/1e6, b.arena[:n-len(id.Coordinator)-8])
}

// Empty reports whether the batch is empty.
func (b *Batch) Empty() bool { return b.b.Empty() }

// Commit applies the batch without waiting for the disk. The caller must close the batch even if Commit returns an
// error.
func (b *Batch) Commit() error {
	b.s.spend(b.b.Len())
	if err := b.s.accepts(b.grows, b.mutates); err != nil {
		return err
	}
	return b.commit()
}

// CommitLogged commits changes from the log of a replica set. All replicas must apply the same changes, so CommitLogged
// does not reject changes for lack of disk space. The leader calls Admit before it proposes such changes.
func (b *Batch) CommitLogged() error {
	b.s.spend(b.b.Len())
	if err := b.s.writable(false); err != nil {
		return err
	}
	return b.commit()
}

// Admit returns the error with which Mutate or Commit would reject a mutation. The mutation need not have timestamps.
// If crowded is true, Admit returns ErrDisksFull for every mutation that takes space, regardless of the local free
// space.
func (s *Writer) Admit(m *command.Mutation, crowded bool) error {
	grows := false
	if len(m.Key) > keys.MaxLen {
		return fmt.Errorf("mutation of table %d: partition key of %d bytes", m.Table, len(m.Key))
	}
	for i := range m.Ops {
		switch op := &m.Ops[i]; op.Kind {
		case command.OpIndex:
			grows = true
		case command.OpChange:
		case command.OpRow, command.OpHeader:
			live, _, err := row.Check(op.Operand)
			if err != nil {
				return fmt.Errorf("mutation of table %d: %w", m.Table, err)
			}
			grows = grows || live
		default:
			return fmt.Errorf("mutation of table %d: unknown operand kind %d", m.Table, op.Kind)
		}
	}
	if err := s.accepts(grows, true); err != nil {
		return err
	}
	if grows && crowded {
		return ErrDisksFull
	}
	return nil
}

func (b *Batch) commit() error {
	s := b.s
	s.commitMu.RLock()
	b.announce()
	if b.metas {
		s.spans.begun.Add(1)
	}
	err := b.b.Commit(pebble.NoSync)
	if b.metas {
		s.spans.done.Add(1)
	}
	for _, slot := range b.annSlots {
		s.ann.added(slot)
	}
	if b.sweeps {
		b.s.noteSwept()
	}
	if b.weakens {
		s.weakened.Add(1) // sweeps must not use an older header after the commit
	}
	s.commitMu.RUnlock()
	if err != nil {
		return s.check(fmt.Errorf("commit: %w", err))
	}
	s.m.batches.Add(1)
	if len(b.hot) > 0 {
		b.collapseAll()
	}
	if b.progress > 0 {
		s.compactProgress(b.progress)
	}
	return nil
}
