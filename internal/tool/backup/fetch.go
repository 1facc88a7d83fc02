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

// fetch is what is still to be fetched of one partition's log.
type fetch struct {
	archive.EntryRange
	// asked are the nodes that do not have it, failed says that one of them did not answer.
	asked  map[string]bool
	failed error
}

// fetching is what has changed before a mark, on its way.
type fetching struct {
	f     *Follower
	taken *archive.Snapshot
	// here are the partitions of the mark, known those whose log is fetched, too: their spans were taken by others.
	here, known map[uint64]bool
	next        map[string][]*fetch
	changes     *changes
	hole        string
}

// since fetches what has changed between the tip and a mark. hole says, if it is not empty, why that cannot be had.
func (f *Follower) since(ctx context.Context, taken *archive.Snapshot) (c *changes, hole string, err error) {
	switch t := f.tip; {
	case t == nil:
		return nil, "there is none", nil
	case t.cluster != taken.Cluster:
		return nil, "what was archived there before is of another cluster", nil
	case t.run != taken.Incarnation:
		return nil, "the node was restarted, and stands alone", nil
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

// want has the entries of a partition fetched, up to an index, from a node that is likely to have them.
func (g *fetching) want(node string, partition, upto uint64) {
	after, ok := g.f.tip.applied[partition]
	if !ok {
		after = keys.InitialApplied
	}
	switch {
	case after > upto:
		g.hole = fmt.Sprintf("partition %d is not as far as it was", partition)
	case after < upto:
		w := &fetch{archive.EntryRange{Partition: partition, After: after, Upto: upto}, map[string]bool{}, nil}
		g.next[node] = append(g.next[node], w)
	}
}

// wantedMax is how many partitions a node is asked for at a time.
const wantedMax = 4096

// from asks a node. What it does not have is asked of others, and what it has not sent yet is asked of it again.
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
	data, err := g.f.Door.Order(ctx, "backup/entries", body)
	if err != nil {
		return nil, err
	}
	return archive.DecodeEntries(data)
}

// elsewhere has a node asked that was not yet. If there is none, and all have answered, the log has a hole; else they
// are asked again, with the next mark, for a while.
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
	g.hole = fmt.Sprintf("no node has what was written to partition %d since the mark before", w.Partition)
	return nil
}

// apply takes an entry.
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
