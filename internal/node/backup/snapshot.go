// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// retries configures the attempts to take a consistent snapshot. A backup may wait a long time, but a mark of an
// archive must complete within the second of the mark.
type retries struct {
	tries int
	pause time.Duration
	// within is the maximum time, counted from the start, at which another attempt may begin.
	within time.Duration
}

var (
	backupRetries = retries{tries: 10, pause: 200 * time.Millisecond, within: time.Minute}
	// A mark fails if the schema or a partition changes while the mark is taken. If all retries are within the same
	// second, no second is lost while leaders are stable.
	markRetries = retries{tries: 8, pause: 20 * time.Millisecond, within: 900 * time.Millisecond}
)

// take tries to take a snapshot until it succeeds, ctx ends, or no attempts are left.
func (r retries) take(ctx context.Context, try func(context.Context) (*archive.Snapshot, error)) (*archive.Snapshot,
	error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		taken, err := try(ctx)
		if err == nil {
			return taken, nil
		}
		if attempt == r.tries || time.Since(began)+r.pause > r.within {
			times := "attempts"
			if attempt == 1 {
				times = "attempt"
			}
			return nil, fmt.Errorf("cannot take a consistent snapshot of the cluster (%d %s): %w", attempt, times, err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(r.pause):
		}
	}
}

// takeSnapshot takes a consistent snapshot of the whole cluster. All leaders block writers, keep the state of their
// partitions, and then unblock the writers. The attempt is repeated if a leader, a partition, or the schema changes. A
// mark makes the nodes keep later changes.
func (s *Server) takeSnapshot(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	r := backupRetries
	if mark {
		r = markRetries
	}
	return r.take(ctx, func(ctx context.Context) (*archive.Snapshot, error) { return s.trySnapshot(ctx, mark) })
}

func (s *Server) trySnapshot(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	before, err := s.Metadata.ReadBarrier(ctx)
	if err != nil {
		return nil, err
	}
	id := &s.Identity
	t := &archive.Snapshot{ID: uuid.NewString(), Software: id.Software, Cluster: fmt.Sprintf("%x", id.Cluster),
		Incarnation: id.Process}
	var parts []archive.Partition
	began := time.Now()
	err = s.requestAll(ctx, &nodeRequest{Op: "begin", Mark: mark, FileRequest: archive.FileRequest{ID: t.ID}},
		func(node topology.NodeID, response []byte) error {
			t.Nodes = append(t.Nodes, hex.EncodeToString(node[:]))
			var own []archive.Partition
			if err := json.Unmarshal(response, &own); err != nil {
				return err
			}
			for i := range own {
				own[i].Node = hex.EncodeToString(node[:])
			}
			parts = append(parts, own...)
			return nil
		})
	t.Time = s.Clock.Wall().UTC()
	if err == nil {
		err = s.requestAll(ctx, &nodeRequest{Op: "seal", FileRequest: archive.FileRequest{ID: t.ID}}, nil)
	}
	t.WritePause = time.Since(began)
	if err == nil {
		err = s.describeSnapshot(ctx, t, before, parts)
	}
	if err != nil {
		s.dropSnapshot(ctx, t.ID)
		return nil, err
	}
	return t, nil
}

// describeSnapshot adds the metadata and the tables to a snapshot. It fails if the schema has changed since the
// metadata state before.
func (s *Server) describeSnapshot(ctx context.Context, t *archive.Snapshot, before *meta.State,
	parts []archive.Partition) error {
	after, err := s.Metadata.ReadBarrier(ctx)
	if err != nil {
		return err
	}
	if after.Schema.Revision != before.Schema.Revision {
		return errors.New("the schema has changed")
	}
	d, err := s.dumpMetadata(after)
	if err != nil {
		return err
	}
	t.Metadata, t.MetadataFile = d.plain, d.name
	t.Tables, err = archive.AssignPartitions(backedUpTables(after.Schema, batchlogTable(s.Catalog)), parts)
	return err
}

// metadataDump is an encoded metadata state. It is cached because marks are taken every second, and usually have the
// same state.
type metadataDump struct {
	state *meta.State
	plain []byte
	name  string
}

func (s *Server) dumpMetadata(state *meta.State) (*metadataDump, error) {
	if d := s.dump.Load(); d != nil && d.state == state {
		return d, nil
	}
	records, err := meta.Empty().Diff(state)
	if err != nil {
		return nil, err
	}
	var b archive.Builder
	for _, r := range sortedRecords(records) {
		if err := b.Add([]byte(r.Key), r.Value); err != nil {
			return nil, err
		}
	}
	d := &metadataDump{state: state, plain: b.Plain(), name: archive.FileName(b.Plain())}
	s.dump.Store(d)
	return d, nil
}

// bufferedChanges returns the buffered changes of logs in the format of archive.Entries.
func (s *Server) bufferedChanges(wanted []archive.EntryRange) ([]byte, error) {
	s.Changes.KeepAlive()
	var out archive.Entries
	for _, w := range wanted {
		if out.Full() {
			break
		}
		got, last := archive.EntryStatus{Upto: w.Upto}, w.After
		err := s.Changes.Each(w.Partition, w.After, w.Upto, func(index uint64, command []byte) bool {
			if out.Full() && index > last { // an entry is never split between responses
				got.Upto = last
				return false
			}
			last = index
			out.Add(w.Partition, index, command)
			return true
		})
		got.Missing = err != nil
		out.Status = append(out.Status, got)
	}
	return out.Append(nil)
}

// backedUpTables returns the tables in a backup, which are the user tables and the batchlog. Views are rebuilt from
// their base tables.
func backedUpTables(s *schema.Schema, batches archive.Table) []archive.Table {
	out := []archive.Table{batches}
	for ks := range s.All() {
		if schema.IsSystem(ks.Name) || ks.Virtual {
			continue
		}
		for _, t := range ks.SortedTables() {
			if !t.Virtual && t.View == nil {
				out = append(out, archive.Table{Keyspace: ks.Name, Name: t.Name, ID: t.ID})
			}
		}
	}
	return out
}
