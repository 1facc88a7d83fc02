// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// pageBytes is the maximum size of the log entries in memory.
const pageBytes = 8 << 20

// eachEntry calls fn for the entries of a log from index lo to hi.
func eachEntry(g *raftlog.Group, lo, hi uint64, fn func(e *pb.Entry) error) error {
	for lo <= hi {
		page, err := g.Entries(lo, hi+1, pageBytes)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("entry %d: %w", lo, raftlog.ErrCorrupt)
		}
		for _, e := range page {
			if err := fn(e); err != nil {
				return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
			}
		}
		lo += uint64(len(page))
	}
	return nil
}

// readLog reads the end of a replica's log and its unapplied part.
func (d *directory) readLog(r *Replica, records *records) error {
	m := &r.meta
	r.Last, r.LastTerm, r.Term = m.Applied, m.Term, m.Term
	r.Newest = max(m.MaxTimestamp, 0)
	g, err := d.log.Group(r.Partition)
	if err != nil || !g.Exists() {
		return err
	}
	hard, _, err := g.InitialState()
	if err != nil {
		return err
	}
	r.Term = max(r.Term, hard.GetTerm())
	last, err := g.LastIndex()
	if err != nil {
		return err
	}
	if last < m.Applied {
		if g.Installing() == m.Applied {
			return nil // the next start empties the log
		}
		return fmt.Errorf("applied %d, the log ends at %d: %w", m.Applied, last, raftgroup.ErrLostLog)
	}
	r.Last = last
	if r.LastTerm, err = g.Term(last); err != nil {
		return err
	}
	var e command.Entry
	return eachEntry(g, m.Applied+1, last, func(entry *pb.Entry) error {
		if entry.GetType() != pb.EntryNormal {
			r.Changes++
			return nil
		}
		_, commands, err := raftgroup.DecodeCommands(entry.GetData())
		if err != nil {
			return err
		}
		for i, c := range commands {
			if err := command.DecodeEntry(&e, c); err != nil {
				return err
			}
			switch e.Kind {
			case command.EntryWrite:
				r.Newest = max(r.Newest, e.Mutations[0].Timestamp)
			case command.EntryRecords:
				if r.Partition == keys.MetaPartition {
					records.apply(&e.Records)
				}
			case command.EntrySplit, command.EntryFreeze, command.EntryUnfreeze, command.EntryMerge:
				r.Tail = append(r.Tail, Command{Index: entry.GetIndex(), Place: uint64(i) + 1,
					Data: bytes.Clone(c)})
			}
		}
		return nil
	})
}

// records holds the records of the meta partition.
type records struct {
	version uint64
	values  map[string][]byte
}

func readRecords(s *storage.Records) (*records, error) {
	r := &records{values: map[string][]byte{}}
	err := s.Scan(keys.MetaID, nil, func(key, value []byte) error {
		if string(key) != keys.MetadataVersionKey {
			r.values[string(key)] = bytes.Clone(value)
			return nil
		}
		if len(value) != 8 {
			return fmt.Errorf("invalid metadata version: %d bytes", len(value))
		}
		r.version = binary.BigEndian.Uint64(value)
		return nil
	})
	return r, err
}

// apply applies a log entry to the records.
func (r *records) apply(c *command.Records) {
	if c.Expect != 0 && c.Expect != r.version {
		return
	}
	for _, p := range c.Put {
		if p.Value == nil {
			delete(r.values, string(p.Key))
		} else {
			r.values[string(p.Key)] = bytes.Clone(p.Value)
		}
	}
	r.version++
}

func (r *records) list() []Record {
	out := make([]Record, 0, len(r.values))
	for _, key := range slices.Sorted(maps.Keys(r.values)) {
		out = append(out, Record{[]byte(key), r.values[key]})
	}
	return out
}

// outcome is the state of a partition after the whole log has been applied.
type outcome struct {
	meta keys.Meta
	// born holds the children of unapplied splits.
	born []keys.Meta
}

// replayTail applies a replica's log to its partition by the rules of package partition. An entry takes effect only at
// the epoch for which it was proposed.
func replayTail(s *NodeState, r *Replica) (*outcome, error) {
	o := &outcome{meta: r.meta}
	m := &o.meta
	var e command.Entry
	for _, c := range r.Tail {
		if b := m.Begun; b.Index == c.Index && c.Place <= b.Commands {
			continue
		}
		if err := command.DecodeEntry(&e, c.Data); err != nil {
			return nil, err
		}
		if e.Epoch != m.Epoch || m.Frozen != 0 && e.Kind != command.EntryUnfreeze {
			continue
		}
		switch e.Kind {
		case command.EntryFreeze:
			m.Frozen = c.Index
		case command.EntryUnfreeze:
			m.Frozen = 0
			m.Epoch++
		case command.EntrySplit:
			o.split(&e.Split, c.Index)
		case command.EntryMerge:
			right := s.of(e.Merge.Right)
			if right == nil || right.meta.Frozen != e.Merge.Frozen || right.meta.Epoch != e.Merge.RightEpoch {
				return nil, fmt.Errorf("node %s: partition %d was merged with %d, whose frozen state does not match",
					s.Node.Short(), r.Partition, e.Merge.Right)
			}
			m.Span.End = right.meta.Span.End
			m.Epoch = max(m.Epoch, right.meta.Epoch) + 1
			m.Absorbed = append(slices.Concat(m.Absorbed, right.meta.Absorbed),
				keys.Absorbed{Partition: right.Partition, Index: right.meta.Frozen, Epoch: right.meta.Epoch,
					At: c.Index})
		}
	}
	return o, nil
}

func (o *outcome) split(s *command.Split, index uint64) {
	m := &o.meta
	if bytes.Compare(s.At, m.Span.Begin) <= 0 || len(m.Span.End) > 0 && bytes.Compare(s.At, m.Span.End) >= 0 {
		return
	}
	child := keys.NewMeta(s.Child, keys.Span{Table: m.Span.Table, Begin: bytes.Clone(s.At), End: m.Span.End})
	child.Epoch, child.Feature, child.Region = m.Epoch+1, m.Feature, m.Region
	child.Voters, child.Learners = slices.Clone(s.Voters), slices.Clone(s.Learners)
	child.Parents = []keys.Parent{{Partition: m.Partition, Index: index, Epoch: m.Epoch}}
	o.born = append(o.born, child)
	m.Span.End = child.Span.Begin
	m.Epoch++
}

// longestFirst orders replicas by their logs in descending order.
func longestFirst(a, b holder) int {
	return cmp.Or(-a.replica.longer(b.replica), bytes.Compare(a.survey.Node[:], b.survey.Node[:]))
}

// holder is a survivor with a replica of a partition.
type holder struct {
	survey  *NodeState
	replica *Replica
}
