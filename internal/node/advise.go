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
	// adviseSubject is what nodes are asked about for what they know of a table; the question is its id.
	adviseSubject = "table"
	// adviseWait bounds the wait for advice on a table, and adviseNodeWait that for another node.
	adviseWait     = 20 * time.Second
	adviseNodeWait = 10 * time.Second
	// adviceAge is how old the advice may be that a virtual table shows, and adviceTablesMax of how many tables it is
	// remembered.
	adviceAge       = time.Minute
	adviceTablesMax = 1000
	// adviceWait bounds the wait of a query of the virtual table: tables that it is not enough for are left out.
	adviceWait = 8 * time.Second
)

// advice is what was said of tables lately.
type advice struct {
	// looking is held while rows are sampled here: one table at a time, whoever asks.
	looking sync.Mutex

	mu sync.Mutex
	at map[uint32]advised
}

type advised struct {
	report advise.Report
	when   time.Time
	// revision is that of the table.
	revision uint64
}

// advise says what is to be said of a table, of which all nodes are asked.
func (n *Node) advise(ctx context.Context, t *schema.Table) (advise.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, adviseWait)
	defer cancel()
	ks := n.catalog.Snapshot().Keyspace(t.Keyspace)
	if ks == nil {
		return advise.Report{}, fmt.Errorf("there is no table %s", t)
	}
	in := advise.Input{Table: t, Throughput: ks.Throughput(t), Physical: len(n.records.State().Map.Partitions(t.ID))}
	here, err := n.surveyTable(ctx, t.ID)
	if err != nil {
		return advise.Report{}, err
	}
	in.Add(&here)
	if n.cluster != nil {
		n.cluster.addParts(ctx, &in)
	}
	in.Traffic = trafficOf(n.usage(ctx, usage.ReportOptions{Table: t.ID, Minutes: true}))
	return advise.Advise(&in), nil
}

// trafficOf is what was spent at the physical partitions of a table, and at the key that took most.
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

// addParts asks all other nodes for what they know of a table. One that does not answer is missed in the report's
// figures.
func (c *cluster) addParts(ctx context.Context, in *advise.Input) {
	question := binary.BigEndian.AppendUint32(nil, in.Table.ID)
	c.askOthers(ctx, adviseSubject, question, adviseNodeWait, func(answer []byte) {
		if part, err := advise.DecodePart(answer); err == nil {
			in.Add(&part)
		}
	})
}

// adviseOthers answers another node that asks about a table.
func (c *cluster) adviseOthers(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case <-c.started:
	default:
		return nil, errors.New("the node is starting")
	}
	if len(question) != 4 {
		return nil, errors.New("malformed request: a table has an id of 4 bytes")
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

// adviseNamed is the advice on the tables of users that a name stands for: ks.table, or all if it is empty.
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

// adviceShown is what the virtual table shows of tables: those for which there is no time left are missing.
func (n *Node) adviceShown(ctx context.Context, tables []*schema.Table) (out []advise.Report) {
	ctx, cancel := context.WithTimeout(ctx, adviceWait)
	defer cancel()
	for _, t := range tables {
		if schema.IsSystem(t.Keyspace) {
			continue
		}
		if r, err := n.advice.of(t, func() (advise.Report, error) { return n.advise(ctx, t) }); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// of is the advice on a table, found anew if it is old.
func (a *advice) of(t *schema.Table, anew func() (advise.Report, error)) (advise.Report, error) {
	a.mu.Lock()
	known, ok := a.at[t.ID]
	a.mu.Unlock()
	if ok && known.revision == t.Revision && time.Since(known.when) < adviceAge {
		return known.report, nil
	}
	r, err := anew()
	if err != nil {
		return r, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil || len(a.at) >= adviceTablesMax {
		a.at = map[uint32]advised{}
	}
	a.at[t.ID] = advised{r, time.Now(), t.Revision}
	return r, nil
}
