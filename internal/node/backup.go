// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/replica/snapshotset"
)

// backupSubject is the subject of backup requests between nodes.
const backupSubject = "backup"

// backupRequest is a backup request between nodes.
type backupRequest struct {
	// Op is begin, seal, drop, page, or entries.
	Op string `json:"op"`
	// Mark makes the node keep the changes applied after begin for a while.
	Mark bool `json:"mark,omitempty"`
	archive.FileRequest
}

// backupCommand executes a request of the backup tool: begin, mark, page, entries, or drop.
func (n *Node) backupCommand(ctx context.Context, what string, body []byte) ([]byte, error) {
	var asked archive.FileRequest
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, fmt.Errorf("malformed backup request: %w", err)
		}
	}
	switch what {
	case "begin", "mark":
		taken, err := n.takeSnapshot(ctx, what == "mark")
		if err != nil {
			return nil, err
		}
		if slices.Contains(asked.KnownFiles, taken.MetadataFile) {
			taken.Metadata = nil
		}
		return json.Marshal(taken)
	case "page", "entries":
		node, ok := parseNodeID(asked.Node)
		if !ok {
			return nil, fmt.Errorf("%q is not a node ID", asked.Node)
		}
		return n.requestBackup(ctx, node, &backupRequest{Op: what, FileRequest: asked})
	case "drop":
		n.dropSnapshot(ctx, asked.ID)
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("unknown backup request %q", what)
}

func parseNodeID(text string) (id topology.NodeID, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return topology.NodeID(b), true
}

// requestBackup sends a backup request to a node, possibly this one.
func (n *Node) requestBackup(ctx context.Context, node topology.NodeID, w *backupRequest) ([]byte, error) {
	question, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	if node == n.store.Identity().Node {
		return n.serveBackup(ctx, question)
	}
	return n.queries.Query(ctx, node, backupSubject, question)
}

// serveBackup serves a backup request of another node.
func (n *Node) serveBackup(ctx context.Context, question []byte) ([]byte, error) {
	var w backupRequest
	if err := json.Unmarshal(question, &w); err != nil {
		return nil, fmt.Errorf("malformed backup request: %w", err)
	}
	switch w.Op {
	case "begin":
		if w.Mark { // before the snapshot, to include every later change
			n.journal.KeepAlive()
		}
		parts, err := n.moments.Begin(ctx, w.ID, n.host.Replicas())
		if err != nil {
			return nil, err
		}
		return json.Marshal(parts)
	case "seal":
		return nil, n.moments.Seal(ctx, w.ID)
	case "drop":
		n.moments.Drop(w.ID)
		return nil, nil
	case "page":
		return n.moments.Page(ctx, &w.FileRequest)
	case "entries":
		return n.bufferedChanges(w.Entries)
	}
	return nil, fmt.Errorf("unknown backup request %q: this node runs an older version", w.Op)
}

// memberNodes returns all nodes that may lead partitions.
func (n *Node) memberNodes() []topology.NodeID {
	out := []topology.NodeID{n.store.Identity().Node}
	return append(out, n.queries.LiveNodes()...)
}

// requestBackupAll sends a request to all nodes in parallel and returns the first error. It calls take with one
// response at a time. After an error it does not wait for the other nodes, except to drop a snapshot: writers wait
// while a snapshot is being taken.
func (n *Node) requestBackupAll(ctx context.Context, w *backupRequest,
	take func(node topology.NodeID, answer []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotset.PauseMax)
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for _, node := range n.memberNodes() {
		asking.Go(func() {
			answer, err := n.requestBackup(ctx, node, w)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && take != nil {
				err = take(node, answer)
			}
			if err == nil || failure != nil {
				return
			}
			failure = fmt.Errorf("node %s: %w", node.Short(), err)
			if w.Op != "drop" {
				cancel()
			}
		})
	}
	asking.Wait()
	return failure
}

func (n *Node) dropSnapshot(ctx context.Context, id string) {
	drop := &backupRequest{Op: "drop", FileRequest: archive.FileRequest{ID: id}}
	_ = n.requestBackupAll(context.WithoutCancel(ctx), drop, nil)
	// A node that misses the request drops the snapshot after a period without reads.
}

// takeSnapshot takes a consistent snapshot of the whole cluster: all leaders block writers, keep the state of their
// partitions, and unblock the writers. It is retried if a leader, a partition, or the schema changes. A mark makes the
// nodes keep later changes.
func (n *Node) takeSnapshot(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	r := backupRetries
	if mark {
		r = markRetries
	}
	return r.take(ctx, func(ctx context.Context) (*archive.Snapshot, error) { return n.trySnapshot(ctx, mark) })
}

func (n *Node) trySnapshot(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	before, err := n.metadata.ReadBarrier(ctx)
	if err != nil {
		return nil, err
	}
	t := &archive.Snapshot{ID: uuid.NewString(), Software: process.Version()}
	t.Cluster, t.Incarnation = fmt.Sprintf("%x", n.store.Identity().Node), n.run
	if n.cluster != nil {
		t.Cluster, t.Incarnation = fmt.Sprintf("%x", n.store.Identity().Cluster), "" // a cluster keeps applied entries
	}
	var parts []archive.Partition
	began := time.Now()
	err = n.requestBackupAll(ctx, &backupRequest{Op: "begin", Mark: mark, FileRequest: archive.FileRequest{ID: t.ID}},
		func(node topology.NodeID, answer []byte) error {
			t.Nodes = append(t.Nodes, hex.EncodeToString(node[:]))
			var own []archive.Partition
			if err := json.Unmarshal(answer, &own); err != nil {
				return err
			}
			for i := range own {
				own[i].Node = hex.EncodeToString(node[:])
			}
			parts = append(parts, own...)
			return nil
		})
	t.Time = n.clock()().UTC()
	if err == nil {
		err = n.requestBackupAll(ctx, &backupRequest{Op: "seal", FileRequest: archive.FileRequest{ID: t.ID}}, nil)
	}
	t.WritePause = time.Since(began)
	if err == nil {
		err = n.describeSnapshot(ctx, t, before, parts)
	}
	if err != nil {
		n.dropSnapshot(ctx, t.ID)
		return nil, err
	}
	return t, nil
}

// describeSnapshot adds the metadata and the tables to a snapshot. It fails if the schema has changed since before.
func (n *Node) describeSnapshot(ctx context.Context, t *archive.Snapshot, before *meta.State,
	parts []archive.Partition) error {
	after, err := n.metadata.ReadBarrier(ctx)
	if err != nil {
		return err
	}
	if after.Schema.Revision != before.Schema.Revision {
		return errors.New("the schema has changed")
	}
	d, err := n.dumpMetadata(after)
	if err != nil {
		return err
	}
	t.Metadata, t.MetadataFile = d.plain, d.name
	t.Tables, err = archive.AssignPartitions(backupTables(after.Schema, n.batchTable()), parts)
	return err
}

// metadataDump is an encoded metadata state. It is cached because marks are taken every second, usually of the same
// state.
type metadataDump struct {
	state *meta.State
	plain []byte
	name  string
}

func (n *Node) dumpMetadata(s *meta.State) (*metadataDump, error) {
	if d := n.metadataDump.Load(); d != nil && d.state == s {
		return d, nil
	}
	records, err := meta.Empty().Diff(s)
	if err != nil {
		return nil, err
	}
	var b archive.Builder
	for _, r := range sortedRecords(records) {
		if err := b.Add([]byte(r.Key), r.Value); err != nil {
			return nil, err
		}
	}
	d := &metadataDump{state: s, plain: b.Plain(), name: archive.FileName(b.Plain())}
	n.metadataDump.Store(d)
	return d, nil
}

// bufferedChanges returns the buffered changes of logs, encoded as archive.Entries.
func (n *Node) bufferedChanges(wanted []archive.EntryRange) ([]byte, error) {
	n.journal.KeepAlive()
	var out archive.Entries
	for _, w := range wanted {
		if out.Full() {
			break
		}
		got, last := archive.EntryStatus{Upto: w.Upto}, w.After
		err := n.journal.Each(w.Partition, w.After, w.Upto, func(index uint64, command []byte) bool {
			if out.Full() && index > last { // entries are not divided
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

// backupTables returns the tables in a backup: user tables and the batchlog. Views are rebuilt from their base tables.
func backupTables(s *schema.Schema, batches archive.Table) []archive.Table {
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
