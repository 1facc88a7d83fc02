// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

const (
	// adviseSubject is the subject of queries for a node's data about a table. The question is the table's ID.
	adviseSubject = "table"
	// adviseWait bounds the wait for advice on a table, and adviseNodeWait the wait for another node.
	adviseWait     = 20 * time.Second
	adviseNodeWait = 10 * time.Second
	// adviceAge is the maximum age of the advice in the virtual table, and adviceTablesMax the number of tables whose
	// advice is cached.
	adviceAge       = time.Minute
	adviceTablesMax = 1000
	// adviceWait bounds a query of the virtual table. Tables that do not fit into it are omitted.
	adviceWait = 8 * time.Second
)

// advice caches recent advice.
type advice struct {
	// looking is held while this node samples rows, so that it samples one table at a time.
	looking sync.Mutex

	mu sync.Mutex
	at map[uint32]cachedAdvice
}

type cachedAdvice struct {
	report advise.Report
	when   time.Time
	// revision is the revision of the table.
	revision uint64
}

// advise returns advice on a table, using data from all nodes.
func (n *Node) advise(ctx context.Context, t *schema.Table) (advise.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, adviseWait)
	defer cancel()
	ks := n.catalog.Snapshot().Keyspace(t.Keyspace)
	if ks == nil {
		return advise.Report{}, fmt.Errorf("table %s does not exist", t)
	}
	in := advise.Input{Table: t, Throughput: ks.Throughput(t),
		Physical: len(n.metadata.State().Topology.Partitions(t.ID))}
	here, err := n.surveyTable(ctx, t.ID)
	if err != nil {
		return advise.Report{}, err
	}
	in.Add(&here)
	if n.cluster != nil {
		n.cluster.collectParts(ctx, &in)
	}
	in.Traffic = trafficOf(n.usage(ctx, usage.ReportOptions{Table: t.ID, Minutes: true}))
	return advise.Advise(&in), nil
}

// trafficOf sums the request units spent on a table and finds its busiest key.
func trafficOf(list []usage.Report) (out advise.Traffic) {
	minutes, keys := map[int64]bool{}, map[string]float64{}
	for i := range list {
		for j := range list[i].Minutes {
			m := &list[i].Minutes[j]
			minutes[m.At] = true
			out.Units += m.Units.Float()
			for k := range m.Keys {
				keys[m.Keys[k].Name] += (m.Keys[k].Units - m.Keys[k].Over).Float()
			}
		}
	}
	out.Minutes = float64(len(minutes))
	for name, units := range keys {
		if units > out.KeyUnits || units == out.KeyUnits && name < out.Key {
			out.Key, out.KeyUnits = name, units
		}
	}
	return out
}

// collectParts collects the other nodes' data about a table. The report shows how much is missing if a node does not
// respond.
func (c *cluster) collectParts(ctx context.Context, in *advise.Input) {
	question := binary.BigEndian.AppendUint32(nil, in.Table.ID)
	c.n.queries.Others(ctx, adviseSubject, question, adviseNodeWait, func(answer []byte) {
		if part, err := advise.DecodePart(answer); err == nil {
			in.Add(&part)
		}
	})
}

// handleAdvise handles the query of another node about a table.
func (c *cluster) handleAdvise(ctx context.Context, question []byte) ([]byte, error) {
	if len(question) != 4 {
		return nil, errors.New("malformed request: expected a table ID of 4 bytes")
	}
	part, err := c.n.surveyTable(ctx, binary.BigEndian.Uint32(question))
	if err != nil {
		return nil, err
	}
	return part.Encode()
}

// surveyTable samples the partitions of a table that this node leads.
func (n *Node) surveyTable(ctx context.Context, table uint32) (part advise.Part, err error) {
	n.advice.looking.Lock()
	defer n.advice.looking.Unlock()
	n.census.Refresh(ctx, countWait)
	var led []*partition.Replica
	for _, p := range n.coordinator.Topology().Partitions(table) {
		if r := n.host.Replica(p.ID); r != nil && r.Leading() {
			led = append(led, r)
		}
	}
	o := advise.SurveyOptions(len(led), n.clock()())
	for _, r := range led {
		if err := ctx.Err(); err != nil {
			return part, err
		}
		span, _ := r.Span()
		e, err := n.store.Estimate(span.Keys(table))
		if err != nil {
			return part, err
		}
		s := advise.Sample{Partition: uint64(r.ID()), DiskBytes: e.Bytes, Logical: float64(e.Partitions)}
		if counted := n.census.Latest(r.ID()); counted != nil {
			s.Logical = float64(counted.Partitions)
		}
		if s.Sample, err = n.store.Sample(ctx, span.Keys(table), o); err != nil {
			return part, err
		}
		counts := r.Usage().Counts()
		s.Conditions, s.Units = counts.Requests[usage.Condition], counts.Total().Float()
		s.Writes = counts.Requests[usage.Write] + s.Conditions + counts.Requests[usage.Update]
		part.Samples = append(part.Samples, s)
	}
	for _, scan := range n.engine.Scans(table) {
		part.Shapes = append(part.Shapes, advise.Shape{Text: scan.Text, Index: scan.Index, Equal: scan.Equal,
			Keyed: scan.Keyed, Count: scan.Count, Rows: scan.Rows, Units: scan.Units.Float()})
	}
	part.Trim()
	return part, nil
}

// countWait is how long a survey waits for logical partitions to be counted.
const countWait = time.Second

// adviseNamed returns advice on the user table ks.table, or on all user tables if the name is empty.
func (n *Node) adviseNamed(ctx context.Context, name string) ([]advise.Report, error) {
	reports := []advise.Report{}
	if name != "" {
		t, err := n.tableNamed(name)
		if err != nil {
			return nil, err
		}
		r, err := n.advise(ctx, t)
		return append(reports, r), err
	}
	for ks := range n.catalog.Snapshot().All() {
		if schema.IsSystem(ks.Name) {
			continue
		}
		for _, t := range ks.SortedTables() {
			r, err := n.advise(ctx, t)
			if err != nil {
				return reports, err
			}
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// adviceRows returns the advice for the virtual table. It omits tables for which no time is left.
func (n *Node) adviceRows(ctx context.Context, tables []*schema.Table) (out []advise.Report) {
	ctx, cancel := context.WithTimeout(ctx, adviceWait)
	defer cancel()
	for _, t := range tables {
		if schema.IsSystem(t.Keyspace) {
			continue
		}
		if r, err := n.advice.get(t, func() (advise.Report, error) { return n.advise(ctx, t) }); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// get returns the cached advice on a table, or computes it if the cached advice is too old.
func (a *advice) get(t *schema.Table, compute func() (advise.Report, error)) (advise.Report, error) {
	a.mu.Lock()
	known, ok := a.at[t.ID]
	a.mu.Unlock()
	if ok && known.revision == t.Revision && time.Since(known.when) < adviceAge {
		return known.report, nil
	}
	r, err := compute()
	if err != nil {
		return r, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil || len(a.at) >= adviceTablesMax {
		a.at = map[uint32]cachedAdvice{}
	}
	a.at[t.ID] = cachedAdvice{r, time.Now(), t.Revision}
	return r, nil
}
