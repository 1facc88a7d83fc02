// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

const (
	// usageSubject and usersSubject are what nodes ask each other about for usage.
	usageSubject, usersSubject = "usage", "users"
	// usageWait is how long a node is waited for that is asked what was spent there.
	usageWait = 2 * time.Second
)

// usage is what was spent at all replicas of the cluster, those of tables of the system left out. What a node that does
// not answer has measured is missing.
func (n *Node) usage(ctx context.Context, q usage.ReportOptions) []usage.Report {
	lists := [][]usage.Report{n.usageHere(ctx, q)}
	if c := n.cluster; c != nil {
		lists = append(lists, c.usage(ctx, q)...)
	}
	return usage.Merge(lists...)
}

// usage asks the other nodes.
func (c *cluster) usage(ctx context.Context, q usage.ReportOptions) (lists [][]usage.Report) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil
	}
	c.askOthers(ctx, usageSubject, question, usageWait, func(answer []byte) {
		if list, err := usage.DecodeReports(answer); err == nil {
			lists = append(lists, list)
		}
	})
	return lists
}

// answerUsage tells another node what was spent here.
func (c *cluster) answerUsage(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case <-c.started:
	default:
		return usage.EncodeReports(nil)
	}
	var q usage.ReportOptions
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, fmt.Errorf("malformed question: %w", err)
	}
	return usage.EncodeReports(c.n.usageHere(ctx, q))
}

// containerSizes are the sizes of the physical partitions of a container's table, by id. Those of nodes that do not
// answer are missing.
func (n *Node) containerSizes(ctx context.Context, table uint32) map[topology.PartitionID]container.Size {
	out := map[topology.PartitionID]container.Size{}
	for _, r := range n.usage(ctx, usage.ReportOptions{Table: table, Sizes: true}) {
		out[topology.PartitionID(r.Partition)] = container.Size{DiskBytes: r.DiskBytes, Keys: r.LogicalPartitions}
	}
	return out
}

// users are those that take most of all nodes.
func (n *Node) users(ctx context.Context) []usage.User {
	lists := [][]usage.User{n.cql.Users()}
	if c := n.cluster; c != nil {
		c.askOthers(ctx, usersSubject, nil, usageWait, func(answer []byte) {
			var list []usage.User
			if json.Unmarshal(answer, &list) == nil {
				lists = append(lists, list[:min(len(list), usage.UsersMax)])
			}
		})
	}
	return usage.MergeUsers(lists...)
}

// answerUsers tells another node what users ask of this one.
func (c *cluster) answerUsers(context.Context, []byte) ([]byte, error) {
	select {
	case <-c.started:
		return json.Marshal(c.n.cql.Users())
	default:
		return []byte("[]"), nil
	}
}

// usageHere is what was spent at the replicas of this node. Those of which there is nothing to tell are left
// out.
func (n *Node) usageHere(_ context.Context, q usage.ReportOptions) (out []usage.Report) {
	for _, r := range n.host.Replicas() {
		if r.ID() == topology.MetaPartition || q.Table != 0 && r.Table() != q.Table || !n.isUsers(r.Table()) {
			continue
		}
		u := r.Report(q)
		if q.Largest && r.Leading() {
			for _, l := range n.largest.Latest(r.ID()) {
				name := n.keyName(u.Table, l.Token, l.Key)
				u.Largest = append(u.Largest, usage.LargePartition{Token: int64(l.Token), Name: name, Bytes: l.Bytes,
					Estimated: l.Estimated})
			}
		}
		if q.Sizes && r.Leading() {
			span, _ := r.Span()
			if e, err := n.store.Estimate(span.Keys(r.Table())); err == nil {
				u.DiskBytes, u.LogicalPartitions = e.Bytes, e.Partitions
			}
		}
		if u.Counts.RequestCount() == 0 && u.Throttled == 0 && u.PerSecond == 0 && u.Largest == nil && !q.Sizes {
			continue
		}
		n.nameKeys(u.Table, u.Top.Keys)
		for i := range u.Minutes {
			n.nameKeys(u.Table, u.Minutes[i].Keys)
		}
		out = append(out, u)
	}
	return out
}

// isUsers reports whether a table is one of users.
func (n *Node) isUsers(table uint32) bool {
	t := n.catalog.Snapshot().TableByID(table)
	return table >= keys.FirstTable && t != nil && !schema.IsSystem(t.Keyspace)
}

// nameKeys puts logical partitions in words. Where no read has named the key it is looked up.
func (n *Node) nameKeys(table uint32, heavy []usage.HeavyPartition) {
	for i := range heavy {
		heavy[i].Name = n.keyName(table, heavy[i].Token, heavy[i].Key)
	}
}

// keyName is a logical partition as the columns of its key with their values, in CQL; its token if nothing is known of
// it but that.
func (n *Node) keyName(table uint32, at token.Token, key []byte) string {
	t := n.catalog.Snapshot().TableByID(table)
	if key == nil && (t == nil || !t.MaskedKey()) {
		var err error
		if key, err = n.store.KeyAt(table, at); err != nil || key == nil {
			return fmt.Sprintf("token %d", at)
		}
	}
	if t == nil {
		return fmt.Sprintf("key 0x%x", key)
	}
	return keyLiterals(t, key)
}

// keyLiterals are the columns of a partition key with their values, in CQL, and those of a container in JSON. Those
// with a mask are shown to nobody: who will read this is not known.
func keyLiterals(t *schema.Table, key []byte) string {
	columns := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		if c.Mask != nil {
			columns[i] = c.Name + " is masked"
			continue
		}
		value, err := expr.PartitionKeyValue(t, key, i)
		if err != nil {
			return fmt.Sprintf("key 0x%x", key)
		}
		literal := c.Type.Format(value)
		if t.Container != nil {
			literal = string(value) // the text that the column holds is JSON
		}
		columns[i] = c.Name + " = " + literal
	}
	return strings.Join(columns, " AND ")
}

// partitionHot logs that a partition is hot, or is not any more (R55).
func (n *Node) partitionHot(r *partition.Replica, hot bool) {
	if !n.isUsers(r.Table()) {
		return
	}
	table := slog.String("table", n.tableName(r.Table()))
	id := slog.Uint64("partition", uint64(r.ID()))
	if !hot {
		n.log.LogAttrs(context.Background(), slog.LevelInfo, "partition is not hot any more", table, id)
		return
	}
	n.hots.Add(1)
	u := r.Report(usage.ReportOptions{Keys: 1})
	key, share := "", 0.
	if len(u.Top.Keys) > 0 && u.UnitsPerSecond() > 0 {
		h := &u.Top.Keys[0]
		key = cmp.Or(n.keyName(r.Table(), h.Token, h.Key), "")
		share = min(h.PerSecond/u.UnitsPerSecond(), 1)
	}
	n.log.LogAttrs(context.Background(), slog.LevelWarn, "partition is hot", table, id,
		slog.Float64("utilisation_percent", float64(int(1000*u.Lately.Utilization()))/10),
		slog.Int64("throughput", u.PerSecond), slog.Uint64("throttled", u.Lately.Throttled),
		slog.String("hottest_key", key), slog.Int("its_share_percent", int(100*share)))
}
