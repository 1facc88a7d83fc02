// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

const (
	// adviseTimeout is the maximum wait for advice on a table. adviseNodeTimeout is the maximum wait for another node.
	adviseTimeout     = 20 * time.Second
	adviseNodeTimeout = 10 * time.Second
	// adviceAge is the maximum age of the advice in the virtual table. adviceTablesMax is the number of tables whose
	// advice is cached.
	adviceAge       = time.Minute
	adviceTablesMax = 1000
	// adviceTimeout is the maximum duration of a query of the virtual table. The result omits tables for which no time
	// is left.
	adviceTimeout = 8 * time.Second
)

// adviseCall requests a node's data about a table. The request contains the table ID in 4 bytes.
var adviseCall = rpc.Declare[rpc.Bytes, advise.Part](rpc.Spec{Name: "table", Since: 3, Timeout: adviseNodeTimeout,
	RequestMax: rpc.SmallBytes, Idempotent: true})

// Advisor gives advice on the design of tables. It uses data from all nodes. It caches advice for the virtual table.
type Advisor struct {
	src    Sources
	engine Engine
	usage  *UsageReporter
	counts *partitioncount.Counter

	// sampling is held while this node samples rows. The node therefore samples one table at a time.
	sampling sync.Mutex

	mu    sync.Mutex
	cache map[uint32]cachedAdvice // cached advice by table
}

// NewAdvisor returns an Advisor that uses the usage and sizes of partitions.
func NewAdvisor(src Sources, engine Engine, u *UsageReporter, sizes *SizeEstimator) *Advisor {
	return &Advisor{src: src, engine: engine, usage: u, counts: sizes.counts}
}

type cachedAdvice struct {
	report advise.Report
	when   time.Time
	// revision is the revision of the table.
	revision uint64
}

func (a *Advisor) register(s *rpc.Server) {
	clusterquery.Handle(s, adviseCall, func(ctx context.Context, table rpc.Bytes) (part advise.Part, err error) {
		if len(table) != 4 {
			return part, errors.New("malformed request: expected a table ID of 4 bytes")
		}
		return a.survey(ctx, binary.BigEndian.Uint32(table))
	})
}

// advise returns advice on a table. If a node does not respond, the report shows how much data is missing.
func (a *Advisor) advise(ctx context.Context, t *schema.Table) (advise.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, adviseTimeout)
	defer cancel()
	ks := a.src.Catalog.Snapshot().Keyspace(t.Keyspace)
	if ks == nil {
		return advise.Report{}, fmt.Errorf("table %s does not exist", t)
	}
	in := advise.Input{Table: t, Throughput: ks.Throughput(t),
		Physical: len(a.src.Metadata.State().Topology.Partitions(t.ID))}
	own, err := a.survey(ctx, t.ID)
	if err != nil {
		return advise.Report{}, err
	}
	in.Add(&own)
	table := binary.BigEndian.AppendUint32(nil, t.ID)
	clusterquery.Others(ctx, a.src.Queries, adviseCall, table, func(part advise.Part) { in.Add(&part) })
	in.Traffic = trafficOf(a.usage.Usage(ctx, usage.ReportOptions{Table: t.ID, Minutes: true}))
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

// survey samples the partitions of a table that this node leads.
func (a *Advisor) survey(ctx context.Context, table uint32) (part advise.Part, err error) {
	a.sampling.Lock()
	defer a.sampling.Unlock()
	a.counts.Refresh(ctx, countWait)
	var led []*partition.Replica
	for _, p := range a.src.Metadata.State().Topology.Partitions(table) {
		if r := a.src.Host.Replica(p.ID); r != nil && r.Leading() {
			led = append(led, r)
		}
	}
	o := advise.SurveyOptions(len(led), a.src.Clock.Wall())
	for _, r := range led {
		if err := ctx.Err(); err != nil {
			return part, err
		}
		span, _ := r.Span()
		e, err := a.src.Store.Estimate(span.Keys(table))
		if err != nil {
			return part, err
		}
		s := advise.Sample{Partition: uint64(r.ID()), DiskBytes: e.Bytes, Logical: float64(e.Partitions)}
		if counted := a.counts.Latest(r.ID()); counted != nil {
			s.Logical = float64(counted.Partitions)
		}
		if s.Sample, err = a.src.Store.Sample(ctx, span.Keys(table), o); err != nil {
			return part, err
		}
		counts := r.Load().Usage().Counts()
		s.Conditions, s.Units = counts.Requests[usage.Condition], counts.Total().Float()
		s.Writes = counts.Requests[usage.Write] + s.Conditions + counts.Requests[usage.Update]
		part.Samples = append(part.Samples, s)
	}
	for _, scan := range a.engine.Scans(table) {
		part.Shapes = append(part.Shapes, advise.Shape{Text: scan.Text, Index: scan.Index, Equal: scan.Equal,
			Keyed: scan.Keyed, Count: scan.Count, Rows: scan.Rows, Units: scan.Units.Float()})
	}
	part.Trim()
	return part, nil
}

// Advise returns advice on the user table ks.table. If the name is empty, Advise returns advice on all user tables.
func (a *Advisor) Advise(ctx context.Context, name string) ([]advise.Report, error) {
	reports := []advise.Report{}
	if name != "" {
		t, err := a.src.Catalog.UserTableNamed(name)
		if err != nil {
			return nil, err
		}
		r, err := a.advise(ctx, t)
		return append(reports, r), err
	}
	for ks := range a.src.Catalog.Snapshot().All() {
		if schema.IsSystem(ks.Name) {
			continue
		}
		for _, t := range ks.SortedTables() {
			r, err := a.advise(ctx, t)
			if err != nil {
				return reports, err
			}
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// Advice returns the advice for the virtual table. It omits tables for which no time is left.
func (a *Advisor) Advice(ctx context.Context, tables []*schema.Table) (out []advise.Report) {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	for _, t := range tables {
		if schema.IsSystem(t.Keyspace) {
			continue
		}
		if r, err := a.cached(ctx, t); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// cached returns the cached advice on a table. If the cached advice is too old, cached computes new advice.
func (a *Advisor) cached(ctx context.Context, t *schema.Table) (advise.Report, error) {
	a.mu.Lock()
	known, ok := a.cache[t.ID]
	a.mu.Unlock()
	if ok && known.revision == t.Revision && time.Since(known.when) < adviceAge {
		return known.report, nil
	}
	r, err := a.advise(ctx, t)
	if err != nil {
		return r, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cache == nil || len(a.cache) >= adviceTablesMax {
		a.cache = map[uint32]cachedAdvice{}
	}
	a.cache[t.ID] = cachedAdvice{r, time.Now(), t.Revision}
	return r, nil
}
