// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// fetch is the part of a partition's log that remains to be fetched.
type fetch struct {
	archive.EntryRange
	// asked contains the nodes that have reported that they do not have the entries. failed is set if a node did not
	// respond.
	asked  map[string]bool
	failed error
}

// fetching collects the changes before a restore point.
type fetching struct {
	f     *Follower
	taken *archive.Snapshot
	// here maps IDs to the partitions of the restore point. known also contains partitions that were merged into other
	// partitions.
	here, known map[uint64]bool
	next        map[string][]*fetch
	changes     *changes
	hole        string
}

// since fetches the changes between the tip and a restore point. If the changes are unavailable, hole contains the
// reason.
func (f *Follower) since(ctx context.Context, taken *archive.Snapshot) (c *changes, hole string, err error) {
	switch t := f.tip; {
	case t == nil:
		return nil, "no full backup exists", nil
	case t.cluster != taken.Cluster:
		return nil, "the earlier archive belongs to another cluster", nil
	case t.run != taken.Incarnation:
		return nil, "the single node was restarted", nil
	}
	g := &fetching{f: f, taken: taken, here: map[uint64]bool{}, known: map[uint64]bool{},
		next: map[string][]*fetch{}, changes: new(changes)}
	for _, t := range taken.Tables {
		for _, p := range t.Partitions {
			g.here[p.ID] = true
			g.want(p.Node, p.ID, p.Applied)
		}
	}
	for len(g.next) > 0 && g.hole == "" {
		for node, list := range g.next {
			delete(g.next, node)
			if err := g.from(ctx, node, list); err != nil {
				return nil, "", err
			}
			break
		}
	}
	return g.changes, g.hole, nil
}

// want requests the entries of a partition up to an index. The node probably has these entries.
func (g *fetching) want(node string, partition, upto uint64) {
	after, ok := g.f.tip.applied[partition]
	if !ok {
		after = keys.InitialApplied
	}
	switch {
	case after > upto:
		g.hole = fmt.Sprintf("the log of partition %d is shorter than before", partition)
	case after < upto:
		w := &fetch{archive.EntryRange{Partition: partition, After: after, Upto: upto}, map[string]bool{}, nil}
		g.next[node] = append(g.next[node], w)
	}
}

// wantedMax is the maximum number of partitions per request.
const wantedMax = 4096

// from sends requests to a node. If the node does not have some entries, they are requested from other nodes. Entries
// that the node has but has not sent yet are requested again.
func (g *fetching) from(ctx context.Context, node string, list []*fetch) error {
	asked := archive.FileRequest{Node: node}
	now := list[:min(len(list), wantedMax)]
	g.next[node] = append(g.next[node], list[len(now):]...)
	for _, w := range now {
		asked.Entries = append(asked.Entries, w.EntryRange)
	}
	answer, err := g.ask(ctx, &asked)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		for _, w := range now {
			w.failed = err
			if err := g.elsewhere(node, w); err != nil {
				return err
			}
		}
		g.tidy(node)
		return nil
	}
	if err := answer.Each(func(_, _ uint64, command []byte) error { return g.apply(node, command) }); err != nil {
		return err
	}
	for i, w := range now {
		switch {
		case i >= len(answer.Status) || !answer.Status[i].Missing && answer.Status[i].Upto < w.Upto:
			if i < len(answer.Status) {
				w.After = answer.Status[i].Upto
			}
			g.next[node] = append(g.next[node], w)
		case answer.Status[i].Missing:
			if err := g.elsewhere(node, w); err != nil {
				return err
			}
		}
	}
	g.tidy(node)
	return nil
}

func (g *fetching) tidy(node string) {
	if len(g.next[node]) == 0 {
		delete(g.next, node)
	}
}

func (g *fetching) ask(ctx context.Context, asked *archive.FileRequest) (*archive.Entries, error) {
	ctx, cancel := context.WithTimeout(ctx, orderWait)
	defer cancel()
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	data, err := g.f.Node.Order(ctx, "backup/entries", body)
	if err != nil {
		return nil, err
	}
	return archive.DecodeEntries(data)
}

// elsewhere requests the entries from another node. If all nodes have responded but no node has the entries, the log
// has a gap. If some nodes have not responded, the request is repeated at later restore points. The time for these
// attempts is limited.
func (g *fetching) elsewhere(node string, w *fetch) error {
	w.asked[node] = true
	for _, other := range g.taken.Nodes {
		if !w.asked[other] {
			g.next[other] = append(g.next[other], w)
			return nil
		}
	}
	if w.failed != nil {
		if g.f.starving.IsZero() {
			g.f.starving = time.Now()
		}
		if time.Since(g.f.starving) < starveMax {
			return fmt.Errorf("partition %d: %w", w.Partition, w.failed)
		}
	}
	g.hole = fmt.Sprintf("no node has the changes of partition %d since the previous restore point", w.Partition)
	return nil
}

// apply processes an entry.
func (g *fetching) apply(node string, command []byte) error {
	out, err := g.changes.apply(command)
	if err != nil {
		return err
	}
	if out.never {
		g.hole = "a table was truncated"
	}
	if m := out.merged; m.Partition != 0 && !g.here[m.Partition] && !g.known[m.Partition] {
		g.known[m.Partition] = true
		g.want(node, m.Partition, m.Upto)
	}
	return nil
}
