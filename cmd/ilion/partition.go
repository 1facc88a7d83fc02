// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/server/admin"
)

type partitionListCommand struct {
	adminClient
	refreshOptions
	Table string `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to show (default: all user tables)"`
}

// Run lists the physical partitions that a node knows.
func (c *partitionListCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		tables, err := c.tables(ctx)
		return tables, func(out io.Writer) { printPartitions(out, tables) }, err
	})
}

func (c *partitionListCommand) tables(ctx context.Context) ([]admin.TableStatus, error) {
	s, err := c.status(ctx)
	if err != nil {
		return nil, err
	}
	tables := []admin.TableStatus{}
	for _, t := range s.Tables {
		ks, _, _ := strings.Cut(t.Name, ".")
		if t.Name == c.Table || c.Table == "" && !schema.IsSystem(ks) {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 && c.Table != "" {
		return nil, fmt.Errorf("table %s does not exist. Use KEYSPACE.TABLE", c.Table)
	}
	return tables, nil
}

func printPartitions(out io.Writer, tables []admin.TableStatus) {
	w := newTable(out, "TABLE", "ID", "TOKENS", "ON DISK", "LOGICAL", "LEADER", "REPLICAS", "STATE")
	defer w.end()
	for i := range tables {
		t := &tables[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			w.row(t.Name, p.ID, p.Span, size(p.DiskBytes), p.LogicalPartitions, shortID(p.Leader, "-"),
				max(1, len(p.Replicas)), stateOf(p))
		}
	}
}

// stateOf describes the state of a physical partition.
func stateOf(p *admin.PartitionStatus) string {
	switch {
	case p.SplitRecalled:
		return fmt.Sprintf("cancels split at %s", p.SplitsAt)
	case p.SplitsOff != 0:
		return fmt.Sprintf("splits at %s into %d (%s)", p.SplitsAt, p.SplitsOff, p.SplitCause)
	case p.MergesInto == p.ID && p.ID != 0:
		return fmt.Sprintf("merges with %d (%s)", p.MergesWith, p.MergeStage)
	case p.MergesInto != 0:
		return fmt.Sprintf("merges into %d (%s)", p.MergesInto, p.MergeStage)
	case p.Stuck != "":
		return "cannot split: " + p.Stuck
	case p.Hot != "":
		return fmt.Sprintf("hot key: %s uses %.0f %% of %.0f RU/s", p.Hot, 100*p.HotShare, p.Load)
	case len(p.Wanted) > 0:
		return pinnedText(p)
	case p.Parent != 0:
		return fmt.Sprintf("split off from %d", p.Parent)
	}
	return "-"
}

// pinnedText describes the placement that an operator has requested for a partition. The text states whether the move
// is complete.
func pinnedText(p *admin.PartitionStatus) string {
	for _, node := range p.Wanted {
		if !slices.ContainsFunc(p.Replicas, func(r admin.ReplicaStatus) bool {
			return r.Node == node && r.State == "voter"
		}) {
			return "moves to " + shortID(node, "-")
		}
	}
	return "pinned until " + p.HeldUntil
}

func shortID(id, none string) string {
	if id == "" {
		return none
	}
	return id[:min(8, len(id))]
}

type partitionCommand struct {
	List    partitionListCommand    `cmd:"" help:"List physical partitions"`
	History partitionHistoryCommand `cmd:"" help:"Show completed splits, merges, and moves"`

	Split partitionSplitCommand `cmd:"" help:"Split a physical partition"`
	Merge partitionMergeCommand `cmd:"" help:"Merge two adjacent physical partitions"`
	Move  partitionMoveCommand  `cmd:"" help:"Move a replica to another node"`

	Cancel partitionCancelCommand `cmd:"" help:"Cancel a pending split, merge, or move"`
}

type partitionSplitCommand struct {
	adminClient
	Table  string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table"`
	ID     uint64 `arg:"" placeholder:"ID" help:"Partition ID from ilion partition list"`
	At     string `name:"at" placeholder:"TOKEN" help:"First token of the new partition (default: the middle of the rows)"`
	DryRun bool   `name:"dry-run" help:"Show the planned changes without making them"`
	Wait   bool   `name:"wait" help:"Wait until the operation completes"`
	Now    bool   `name:"now" help:"Skip the cool-down of one minute after a split"`
}

// Run splits a physical partition.
func (c *partitionSplitCommand) Run(out io.Writer) error {
	q := url.Values{"table": {c.Table}, "partition": {strconv.FormatUint(c.ID, 10)}}
	if c.At != "" {
		q.Set("at", c.At)
	}
	for name, on := range map[string]bool{"dry-run": c.DryRun, "wait": c.Wait, "now": c.Now} {
		if on {
			q.Set(name, "true")
		}
	}
	body, err := c.request(http.MethodPost, "/partition/split?"+q.Encode())
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

type partitionMergeCommand struct {
	adminClient
	Table  string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table"`
	ID     uint64 `arg:"" placeholder:"ID" help:"Partition ID from ilion partition list"`
	With   uint64 `arg:"" placeholder:"ID" help:"ID of the adjacent partition"`
	DryRun bool   `name:"dry-run" help:"Show the planned changes without making them"`
	Wait   bool   `name:"wait" help:"Wait until the operation completes"`
	Now    bool   `name:"now" help:"Skip the cool-down of one minute after a split or merge"`
}

// Run merges two physical partitions.
func (c *partitionMergeCommand) Run(out io.Writer) error {
	q := url.Values{"table": {c.Table}, "partition": {strconv.FormatUint(c.ID, 10)},
		"with": {strconv.FormatUint(c.With, 10)}}
	for name, on := range map[string]bool{"dry-run": c.DryRun, "wait": c.Wait, "now": c.Now} {
		if on {
			q.Set(name, "true")
		}
	}
	body, err := c.request(http.MethodPost, "/partition/merge?"+q.Encode())
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

type partitionCancelCommand struct {
	adminClient
	Table string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table"`
	ID    uint64 `arg:"" placeholder:"ID" help:"Partition ID from ilion partition list"`
}

// Run cancels the pending operation of a physical partition.
func (c *partitionCancelCommand) Run(out io.Writer) error {
	q := url.Values{"table": {c.Table}, "partition": {strconv.FormatUint(c.ID, 10)}}
	body, err := c.request(http.MethodPost, "/partition/cancel?"+q.Encode())
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

type partitionMoveCommand struct {
	adminClient
	Table  string        `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table"`
	ID     uint64        `arg:"" placeholder:"ID" help:"Partition ID from ilion partition list"`
	From   string        `name:"from" required:"" placeholder:"NODE" help:"Node ID of the replica, from ilion status"`
	To     string        `name:"to" required:"" placeholder:"NODE" help:"Node ID of the destination, from ilion status"`
	Hold   time.Duration `name:"hold" default:"1h" placeholder:"TIME" help:"Time before rebalancing may move it again (default ${default})"`
	DryRun bool          `name:"dry-run" help:"Show the planned changes without making them"`
	Wait   bool          `name:"wait" help:"Wait until the operation completes"`
}

// Run moves a replica.
func (c *partitionMoveCommand) Run(out io.Writer) error {
	q := url.Values{
		"table": {c.Table}, "partition": {strconv.FormatUint(c.ID, 10)}, "from": {c.From}, "to": {c.To},
		"hold": {c.Hold.String()},
	}
	for name, on := range map[string]bool{"dry-run": c.DryRun, "wait": c.Wait} {
		if on {
			q.Set(name, "true")
		}
	}
	body, err := c.request(http.MethodPost, "/partition/move?"+q.Encode())
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
