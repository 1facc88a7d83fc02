// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// Append is a group's work for the LogWriter.
type Append struct {
	g       *Group
	message *pb.Message
	sync    bool
	// hard is set if the hard state must be written. This is required if the term or the vote has changed, or if the
	// entries contain a membership change (RG12).
	hard  bool
	state hardState
	bytes int64
	// If truncate is not 0, the item instead truncates the log up to this index. term is the term of the entry at this
	// index.
	truncate, term uint64
	// If installing is not 0, the item instead records that the installation of a snapshot at this index begins.
	installing uint64
	destroy    bool
}

// Logged is the LogWriter's report on one Append.
type Logged struct {
	g        *Group
	message  *pb.Message
	bytes    int64
	truncate uint64
	// installing is set if the installation may begin.
	installing bool
	destroy    bool
}

// LogWriter writes the logs of all groups. It is not safe for concurrent use.
type LogWriter struct {
	batch LogBatch
	// frames holds the responses of the current write.
	frames []Frame
}

// NewLogWriter returns the log writer of a node. The log writer owns the batch.
func NewLogWriter(b LogBatch) *LogWriter { return &LogWriter{batch: b} }

// Write commits all items as one batch, and syncs the batch if at least one item requires a sync. It returns the
// reports for the loop, in order, and the responses to other nodes (RG3). The responses are valid until the next call.
// If Write returns an error, the host must stop.
func (w *LogWriter) Write(items []Append) ([]Logged, []Frame, error) {
	sync := false
	for i := range items {
		if err := w.add(&items[i]); err != nil {
			return nil, nil, fmt.Errorf("write log of group %d: %w", items[i].g.id, err)
		}
		sync = sync || items[i].sync
	}
	if err := w.batch.Commit(sync); err != nil {
		return nil, nil, fmt.Errorf("write log: %w", err)
	}
	if invariant.Enabled {
		checkDurable(items, sync)
	}
	for i := range w.frames {
		w.frames[i].Data = reused(w.frames[i].Data)
	}
	out := make([]Logged, 0, len(items))
	for i := range items {
		it := &items[i]
		out = append(out,
			Logged{g: it.g, message: it.message, bytes: it.bytes, truncate: it.truncate, installing: it.installing != 0,
				destroy: it.destroy})
		for _, m := range it.message.GetResponses() {
			if m.GetTo() != it.g.replica {
				w.answer(it.g, m)
			}
		}
	}
	frames := make([]Frame, 0, len(w.frames))
	for _, f := range w.frames {
		if len(f.Data) > 0 {
			frames = append(frames, f)
		}
	}
	return out, frames, nil
}

// add adds one item to the batch.
func (w *LogWriter) add(it *Append) error {
	id := it.g.id
	switch {
	case it.destroy:
		return w.batch.Destroy(id)
	case it.truncate != 0:
		return w.batch.Truncate(id, it.truncate, it.term)
	case it.installing != 0:
		return w.batch.Install(id, it.installing)
	}
	m := it.message
	if s := m.GetSnapshot(); !raft.IsEmptySnap(s) {
		meta := s.GetMetadata()
		if err := w.batch.Reset(id, meta.GetIndex(), meta.GetTerm(), meta.GetConfState()); err != nil {
			return err
		}
	}
	if it.hard {
		if err := w.batch.SetHardState(id, it.state.term, it.state.vote, it.state.commit); err != nil {
			return err
		}
	}
	return w.batch.Append(id, m.GetEntries())
}

// answer adds a message to the frame of the receiver's node.
func (w *LogWriter) answer(g *Group, m *pb.Message) {
	r := g.route(m.GetTo())
	if r == nil {
		return
	}
	for i := range w.frames {
		if f := &w.frames[i]; f.To == r.Node {
			if len(f.Data) == 0 {
				f.Data = NewFrame(f.Data, 0, 0)
			}
			f.Data = AppendMessage(f.Data, g.id, m)
			return
		}
	}
	w.frames = append(w.frames, Frame{To: r.Node, Data: AppendMessage(NewFrame(nil, 0, 0), g.id, m)})
}
