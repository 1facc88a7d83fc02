// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// stored calls fn for the stored tables of the requested keyspaces.
func (b *builder) stored(fn func(*schema.Table)) {
	for ks := range b.schema.All() {
		if !b.wants(ks.Name) {
			continue
		}
		for _, t := range ks.SortedTables() {
			if !t.Virtual {
				fn(t)
			}
		}
	}
}

func fillAdvice(b *builder) {
	if b.info.Statistics == nil {
		return
	}
	var tables []*schema.Table
	b.stored(func(t *schema.Table) {
		if !schema.IsSystem(t.Keyspace) {
			tables = append(tables, t)
		}
	})
	for _, r := range b.info.Statistics.Advice(b.ctx, tables) {
		ks, table, _ := strings.Cut(r.Table, ".")
		for i := range r.Findings {
			f := &r.Findings[i]
			v := values{
				"keyspace_name": text(ks), "table_name": text(table), "number": int32Value(int32(i + 1)),
				"kind": text(string(f.Kind)), "level": text(string(f.Level)), "headline": text(f.Headline),
				"proposal": text(f.Proposal.Text), "ddl": textOrNull(f.Proposal.DDL), "basis": text(f.Basis),
			}
			var evidence, effect []string
			for j := range f.Evidence {
				evidence = append(evidence, f.Evidence[j].String())
			}
			for j := range f.Effect {
				effect = append(effect, f.Effect[j].String())
			}
			v["evidence"], v["effect"], v["instead"] = list(evidence), list(effect), list(f.Proposal.Instead)
			b.add(v)
		}
	}
}

func fillPhysicalPartitions(b *builder) {
	if b.info.Metadata == nil {
		return
	}
	m := b.info.Metadata.Topology
	b.stored(func(t *schema.Table) {
		for _, p := range m.Partitions(t.ID) {
			b.add(physical(t, p, b.info.Statistics.Replica(p)))
		}
	})
}

// physical returns the row of a physical partition. r is the local replica of the partition, or nil.
func physical(t *schema.Table, p *topology.Partition, r *Replica) values {
	tokens := p.Span.Tokens()
	v := values{
		"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "partition_id": bigint(int64(p.ID)),
		"begin_token": bigint(int64(tokens.First())), "end_token": bigint(int64(tokens.Last())),
		"epoch": bigint(int64(p.Epoch)), "changed_at": timestamp(p.Since),
	}
	if p.Parent != 0 {
		v["parent_id"] = bigint(int64(p.Parent))
	}
	var replicas [][]byte
	for i := range p.Sets {
		for _, m := range p.Sets[i].Replicas {
			replicas = append(replicas, node(m.Node), text(m.State.String()))
		}
	}
	if len(replicas) > 0 {
		v["replicas"] = nodeMap.SortedMap(replicas)
	}
	if r != nil {
		v["leader"], v["disk_bytes"] = node(r.Leader), bigint(int64(r.DiskBytes))
		v["logical_partitions"] = bigint(int64(r.LogicalPartitions))
		v["reads"], v["writes"] = bigint(int64(r.Reads)), bigint(int64(r.Writes))
	}
	return v
}

// fillIndexBuilds fills the table of index builds, including builds of container indexes.
func fillIndexBuilds(b *builder) {
	if b.info.Metadata == nil {
		return
	}
	records := b.info.Metadata
	b.stored(func(t *schema.Table) {
		for _, ix := range t.SortedIndexes() {
			if !records.Building[ix.ID] {
				continue
			}
			v := values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "index_name": text(ix.Name),
				"percent": int32Value(0), "rows": bigint(0)}
			if at := records.Builds[ix.ID]; at != nil && at.Policy == ix.Policy() {
				v["percent"], v["rows"] = int32Value(int32(at.Percent())), bigint(at.Rows)
			}
			b.add(v)
		}
	})
}

func fillPartitionChanges(b *builder) {
	if b.info.Metadata == nil {
		return
	}
	m := b.info.Metadata.Topology
	b.stored(func(t *schema.Table) {
		for _, p := range m.Partitions(t.ID) {
			for i, e := range meta.InProgress(p) {
				v := event(t, &e)
				v["number"] = int32Value(int32(i + 1))
				b.add(v)
			}
		}
	})
}

// fillPartitionHistory fills the partition history of existing tables.
func fillPartitionHistory(b *builder) {
	if b.info.Metadata == nil {
		return
	}
	for _, e := range b.info.Metadata.History {
		t := b.schema.TableByID(e.Table)
		if t == nil || !b.wants(t.Keyspace) {
			continue
		}
		v := event(t, e)
		v["number"], v["outcome"] = bigint(int64(e.Number)), text(e.Outcome())
		v["ended_at"], v["took_ms"] = timestamp(e.Ended), bigint(e.Duration().Milliseconds())
		if e.Bytes > 0 {
			v["disk_bytes"] = bigint(int64(e.Bytes))
		}
		if e.Pause > 0 {
			v["pause_us"] = bigint(e.Pause.Microseconds())
		}
		b.add(v)
	}
}

// event returns the columns that pending changes and completed changes share.
func event(t *schema.Table, e *meta.Event) values {
	v := values{
		"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "partition_id": bigint(int64(e.Partition)),
		"kind": text(e.Kind.String()), "cause": text(e.Cause.String()), "began_at": timestamp(e.Began),
		"from_node": node(e.From), "to_node": node(e.To),
	}
	if e.Other != 0 {
		v["other_id"] = bigint(int64(e.Other))
	}
	return v
}

var nodeMap = cqltype.MapOf(cqltype.Native(cqltype.UUID), textType)

// node returns the value of a node ID, or null for the zero ID.
func node(id topology.NodeID) []byte {
	if id == (topology.NodeID{}) {
		return nil
	}
	return id[:]
}

// timestamp returns the value of a time in milliseconds since the Unix epoch, or null for 0.
func timestamp(millis int64) []byte {
	if millis == 0 {
		return nil
	}
	return bigint(millis)
}
