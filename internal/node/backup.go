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
	"github.com/ilion-db/ilion/internal/replica/snapshotset"
)

// backupSubject is what nodes ask each other about for backups.
const backupSubject = "backup"

// backupWord is what one node asks of another for a backup.
type backupWord struct {
	// Op is begin, seal, drop, page or entries.
	Op string `json:"op"`
	// Mark has a node that is to begin keep what is applied from then on, for a while.
	Mark bool `json:"mark,omitempty"`
	archive.FileRequest
}

// orderBackup carries out what an operator's tool asks for a backup: what is begin, mark, page, entries or drop.
func (n *Node) orderBackup(ctx context.Context, what string, body []byte) ([]byte, error) {
	var asked archive.FileRequest
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, fmt.Errorf("malformed order of a backup: %w", err)
		}
	}
	switch what {
	case "begin", "mark":
		taken, err := n.takeMoment(ctx, what == "mark")
		if err != nil {
			return nil, err
		}
		if slices.Contains(asked.KnownFiles, taken.MetadataFile) {
			taken.Metadata = nil
		}
		return json.Marshal(taken)
	case "page", "entries":
		node, ok := nodeNamed(asked.Node)
		if !ok {
			return nil, fmt.Errorf("%q is not the identity of a node", asked.Node)
		}
		return n.askBackup(ctx, node, &backupWord{Op: what, FileRequest: asked})
	case "drop":
		n.dropMoment(ctx, asked.ID)
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("a backup has no order %q", what)
}

func nodeNamed(text string) (id topology.NodeID, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return topology.NodeID(b), true
}

// askBackup asks a node, this one included.
func (n *Node) askBackup(ctx context.Context, node topology.NodeID, w *backupWord) ([]byte, error) {
	question, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	if node == n.store.Identity().Node {
		return n.answerBackup(ctx, question)
	}
	if n.cluster == nil {
		return nil, fmt.Errorf("there is no node %s here", node.Short())
	}
	return n.cluster.peers.Ask(ctx, node, backupSubject, question)
}

// answerBackup is Node.answerBackup for a node that may not have begun yet.
func (c *cluster) answerBackup(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case <-c.started:
		return c.n.answerBackup(ctx, question)
	default:
		return nil, errors.New("the node has not begun yet")
	}
}

// answerBackup does what another node asks for a backup.
func (n *Node) answerBackup(ctx context.Context, question []byte) ([]byte, error) {
	var w backupWord
	if err := json.Unmarshal(question, &w); err != nil {
		return nil, fmt.Errorf("malformed question: %w", err)
	}
	switch w.Op {
	case "begin":
		if w.Mark { // before the moment: what is applied after it is to be there
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
		return n.journaled(w.Entries)
	}
	return nil, fmt.Errorf("a build that is older than the one which asks: %q", w.Op)
}

// members are all nodes that may lead partitions.
func (n *Node) members() []topology.NodeID {
	out := []topology.NodeID{n.store.Identity().Node}
	if n.cluster != nil {
		out = append(out, n.cluster.others()...)
	}
	return out
}

// everyMember asks all nodes at once, and returns the first error; take is called with one answer at a time. Once one
// has failed the others are not waited for, but to drop a moment: writers wait as long as a moment is being taken.
func (n *Node) everyMember(ctx context.Context, w *backupWord,
	take func(node topology.NodeID, answer []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotset.PauseMax)
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for _, node := range n.members() {
		asking.Go(func() {
			answer, err := n.askBackup(ctx, node, w)
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

func (n *Node) dropMoment(ctx context.Context, id string) {
	_ = n.everyMember(context.WithoutCancel(ctx), &backupWord{Op: "drop", FileRequest: archive.FileRequest{ID: id}},
		nil)
	// Who did not hear it drops the moment when nobody has asked for it for a while.
}

// takeMoment takes a moment of the whole cluster: it has all leaders keep writers waiting, keeps the state of each
// partition, and lets the writers in. It begins anew if a leader or a partition has changed meanwhile, or the schema.
// One that is a mark has nodes keep what they apply after it.
func (n *Node) takeMoment(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	r := backupRetries
	if mark {
		r = markRetries
	}
	return r.take(ctx, func(ctx context.Context) (*archive.Snapshot, error) { return n.tryMoment(ctx, mark) })
}

func (n *Node) tryMoment(ctx context.Context, mark bool) (*archive.Snapshot, error) {
	before, err := n.records.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	t := &archive.Snapshot{ID: uuid.NewString(), Software: Software()}
	t.Cluster, t.Incarnation = fmt.Sprintf("%x", n.store.Identity().Node), n.run
	if n.cluster != nil {
		t.Cluster, t.Incarnation = fmt.Sprintf("%x", n.store.Identity().Cluster), "" // what is applied there stays
	}
	var parts []archive.Partition
	began := time.Now()
	err = n.everyMember(ctx, &backupWord{Op: "begin", Mark: mark, FileRequest: archive.FileRequest{ID: t.ID}},
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
		err = n.everyMember(ctx, &backupWord{Op: "seal", FileRequest: archive.FileRequest{ID: t.ID}}, nil)
	}
	t.WritePause = time.Since(began)
	if err == nil {
		err = n.describeMoment(ctx, t, before, parts)
	}
	if err != nil {
		n.dropMoment(ctx, t.ID)
		return nil, err
	}
	return t, nil
}

// describeMoment fills in what the cluster knows of itself, and the tables, if they have not changed since before.
func (n *Node) describeMoment(ctx context.Context, t *archive.Snapshot, before *meta.State,
	parts []archive.Partition) error {
	after, err := n.records.Refresh(ctx)
	if err != nil {
		return err
	}
	if after.Schema.Revision != before.Schema.Revision {
		return errors.New("the schema was changed")
	}
	d, err := n.recordsOf(after)
	if err != nil {
		return err
	}
	t.Metadata, t.MetadataFile = d.plain, d.name
	t.Tables, err = archive.AssignPartitions(backedUp(after.Schema, n.batchTable()), parts)
	return err
}

// described is a state of the cluster's records as a backup is told of it. Marks come every second, and mostly of the
// same state.
type described struct {
	state *meta.State
	plain []byte
	name  string
}

func (n *Node) recordsOf(s *meta.State) (*described, error) {
	if d := n.described.Load(); d != nil && d.state == s {
		return d, nil
	}
	records, err := meta.Empty().Difference(s)
	if err != nil {
		return nil, err
	}
	var b archive.Builder
	for _, r := range sortedRecords(records) {
		if err := b.Add([]byte(r.Key), r.Value); err != nil {
			return nil, err
		}
	}
	d := &described{state: s, plain: b.Plain(), name: archive.FileName(b.Plain())}
	n.described.Store(d)
	return d, nil
}

// journaled answers with what the journal has of logs, encoded as archive.Entries.
func (n *Node) journaled(wanted []archive.EntryRange) ([]byte, error) {
	n.journal.KeepAlive()
	var out archive.Entries
	for _, w := range wanted {
		if out.Full() {
			break
		}
		got, last := archive.EntryStatus{Upto: w.Upto}, w.After
		err := n.journal.Each(w.Partition, w.After, w.Upto, func(index uint64, command []byte) bool {
			if out.Full() && index > last { // all of an entry, or nothing of it
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

// backedUp lists what a backup has: the tables of users, and the atomic batches under way. Views are made of their
// tables.
func backedUp(s *schema.Schema, batches archive.Table) []archive.Table {
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
