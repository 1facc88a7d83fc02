// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testInfo() NodeInfo {
	roles := (&access.State{}).WithRole(&access.Role{
		Name: "r", Login: true, Hash: "h", MemberOf: []string{"s"}, Datacenters: []string{"dc1"}, Groups: []string{"g"},
		Grants: map[access.Resource]access.Permissions{access.OfTable("ks", "t"): access.AllPermissions},
	}).WithRole(&access.Role{Name: "s", Configured: true})
	roles = roles.WithGroup(&access.Group{Name: "g", CIDRs: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"),
	}}).WithIdentity("spiffe://a", "r")
	return NodeInfo{
		Endpoint: Endpoint{
			HostID: schema.UUID{1}, Listen: netip.MustParseAddrPort("127.0.0.1:7000"),
			RPC:    netip.MustParseAddrPort("0.0.0.0:9042"),
			Tokens: []token.Token{-5, 7},
		},
		ClusterName: "test", Generation: 5,
		Peers: []Endpoint{{
			HostID: schema.UUID{2}, Datacenter: "dc2", Listen: netip.MustParseAddrPort("127.0.0.2:7000"),
			RPC: netip.MustParseAddrPort("127.0.0.2:9042"), Tokens: []token.Token{3},
		}},
		Settings:    map[string]string{"a": "1", "b": ""},
		Metadata:    testRecords().WithRoles(roles),
		Statistics:  testStatistics{},
		Diagnostics: testDiagnostics{[]Client{{Remote: netip.MustParseAddrPort("[::1]:5000"), Version: 4, User: "u"}}},
	}
}

// testStatistics implements Statistics with one row for most tables.
type testStatistics struct{ lags map[uint32]ViewLag }

func (s testStatistics) ViewLags() map[uint32]ViewLag { return s.lags }

func (testStatistics) SizeEstimates(context.Context) []SizeEstimate {
	return []SizeEstimate{{Table: schema.FirstTableID, Range: token.Range{Begin: 5}, Partitions: 3,
		MeanBytes: 100}}
}

func (testStatistics) Latency(_ uint32, op LatencyOperation) (Latency, bool) {
	return Latency{Count: uint64(op) + 1, Median: 1.5, P99: 3, Slowest: 7, PerSecond: 0.25}, true
}

func (testStatistics) Users(context.Context) []usage.User {
	return []usage.User{{Name: "app", Units: 12.5, Requests: 3, Refused: 1, PerSecond: 1.5,
		RequestsPerSecond: 2, RefusedPerSecond: 0.5}}
}

func (testStatistics) Tables(_ context.Context, tables []*schema.Table) map[uint32]TableStats {
	return map[uint32]TableStats{schema.FirstTableID: {Rows: 5, LogicalBytes: 50, Sampled: true, Tombstones: 2,
		TombstonesOrMore: true, SweepLag: 3, Read: Latency{Count: 1, Median: 1, P99: 2}}}
}

func (testStatistics) Usage(context.Context, usage.ReportOptions) []usage.Report {
	spent := usage.Spent{At: 60, Units: 900 * ru.Unit, Requests: 90, Bytes: 1000, Given: 1800}
	top := usage.Top{Keys: []usage.HeavyPartition{{Token: 7, Name: "k = 7", Units: ru.Unit, Over: ru.Unit / 4,
		Noise: ru.Unit / 2, PerSecond: 45}}}
	counts := usage.Counts{BytesRead: 8, BytesWritten: 9}
	counts.Requests[usage.Point], counts.Units[usage.Point] = 4, 4*ru.Unit
	return []usage.Report{{Partition: 1, Counts: counts, Table: schema.FirstTableID, Throttled: 3,
		PerSecond: 180, Lately: spent, Hot: 70, Top: top,
		Largest: []usage.LargePartition{{Token: 7, Name: "k = 7", Bytes: 5, Estimated: true}},
		Minutes: []usage.Minute{{Spent: spent, Peak: 50 * ru.Unit, PeakGiven: 60, Top: top}}}}
}

func (testStatistics) Advice(_ context.Context, tables []*schema.Table) (out []advise.Report) {
	for _, t := range tables {
		out = append(out, advise.Report{Table: t.String(), Findings: []advise.Finding{{
			Kind: advise.Large, Level: advise.Note, Headline: "large", Basis: "all",
			Evidence: []advise.Fact{{What: "bytes", Value: 2e7, Unit: advise.Bytes}},
			Proposal: advise.Proposal{Text: "divide", DDL: "CREATE", Instead: []string{"or not"}},
			Effect:   []advise.Change{{What: "bytes", Before: 2e7, After: 1e6, Unit: advise.Bytes, OffBy: 3}},
		}}})
	}
	return out
}

func (testStatistics) Replica(p *topology.Partition) *Replica {
	if p.ID != 1 {
		return nil
	}
	return &Replica{Leader: topology.NodeID{1}, DiskBytes: 300, LogicalPartitions: 2, Reads: 5, Writes: 7}
}

// testDiagnostics implements Diagnostics with one row for most tables.
type testDiagnostics struct{ clients []Client }

func (d testDiagnostics) Clients() []Client { return d.clients }

func (testDiagnostics) PreparedStatements() []PreparedStatement {
	return []PreparedStatement{{ID: [16]byte{9}, Query: "SELECT 1"}}
}

func (testDiagnostics) BusiestSessions(context.Context) Sessions {
	return Sessions{Connections: 1, Sessions: []Session{{ID: "0a-1", Node: strings.Repeat("0a", 16),
		Address: "10.0.0.1:1", State: "ready", User: "app", Protocol: 5, Since: time.UnixMilli(1), Millis: 2,
		Statement: "SELECT ?"}, {Node: "malformed"}}}
}

func (testDiagnostics) SlowQueries(context.Context) slowlog.Report {
	at := time.UnixMilli(1)
	return slowlog.Report{Requests: []slowlog.Request{{At: at, Node: strings.Repeat("0a", 16), Millis: 1}},
		Statements: []slowlog.Statement{{Statement: "SELECT ?", Keyspace: "ks", Count: 1, Last: at}}}
}

func (testDiagnostics) Ring() []RingNode {
	return []RingNode{{Node: strings.Repeat("0a", 16), Tokens: []int64{-1, 5}, Share: 1}}
}

// testSchema returns a schema that contains an object of every kind.
func testSchema(t *testing.T) *schema.Schema {
	t.Helper()
	s := schema.New()
	spec := func(text string) *schema.TypeSpec {
		ts, err := schema.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	for i, c := range []schema.Change{
		&schema.CreateKeyspace{Name: "ks", Properties: []schema.Property{{
			Name: "replication", IsMap: true,
			Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}},
		}}},
		&schema.CreateType{Keyspace: "ks", Name: "u", Fields: []schema.FieldSpec{{Name: "a", Type: spec("int")}}},
		&schema.CreateTable{
			Keyspace: "ks", Name: "t", ID: schema.UUID{1}, PartitionKey: []string{"k"}, Clustering: []string{"c"},
			Columns: []schema.ColumnSpec{
				{Name: "k", Type: spec("int")},
				{Name: "c", Type: spec("int")},
				{Name: "v", Type: spec("u")},
				{Name: "m", Type: spec("map<text, int>")},
				{Name: "x", Type: spec("int")},
			},
		},
		&schema.CreateIndex{Keyspace: "ks", Table: "t",
			Targets: []schema.TargetSpec{{Column: "m", Target: schema.IndexKeys}}},
		&schema.AlterTable{Keyspace: "ks", Name: "t", Op: schema.DropColumns, Drop: []string{"x"}},
		&schema.CreateFunction{Keyspace: "ks", Name: "f", Args: []schema.FieldSpec{{Name: "s", Type: spec("int")},
			{Name: "x", Type: spec("text")}}, Returns: spec("int"), Nulls: true, Language: "java", Body: "return s;"},
		&schema.CreateAggregate{Keyspace: "ks", Name: "g", Args: []*schema.TypeSpec{spec("text")}, StateFunc: "f",
			State: spec("int")},
		&schema.AlterTable{Keyspace: "ks", Name: "t", Op: schema.AlterMask, Column: "m", Mask: &schema.MaskSpec{
			Column: spec("map<text, int>"), Mask: schema.Mask{Keyspace: "system", Function: "mask_replace",
				Types: []*schema.TypeSpec{spec("map<text, int>"), spec("int")}, Values: [][]byte{nil, {0, 0, 0, 1}}}}},
	} {
		next, _, err := schema.Apply(s, c)
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		s = next
	}
	return s
}

// TestRowsAreOfTheDeclaredTypes checks (A4) for every row of every virtual table. Each cell must belong to a column of
// the table. Cells and keys must be valid values of the column types.
func TestRowsAreOfTheDeclaredTypes(t *testing.T) {
	// without column_masks and sai_column_indexes
	t.Run("4.0", func(t *testing.T) { testRows(t, compat.Cassandra40, len(fillers)-2) })
	t.Run("5.0", func(t *testing.T) { testRows(t, compat.Cassandra50, len(fillers)) })
}

func testRows(t *testing.T, r *compat.Release, want int) {
	s, _, err := schema.Apply(testSchema(t), &schema.CreateIndex{Keyspace: "ks", Table: "t",
		Targets: []schema.TargetSpec{{Column: "c"}}, Custom: true, Class: "sai", HasClass: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"built", "late"} {
		s, _, err = schema.Apply(s, &schema.CreateView{Keyspace: "ks", Name: name, ID: schema.UUID{name[0]},
			BaseKeyspace: "ks", Base: "t", Selected: []string{"k", "c"},
			PartitionKey: []string{"c"}, Clustering: []string{"k"},
			Where: []schema.ViewRelation{{Columns: []string{"k"}, Rest: "IS NOT NULL", NotNull: true},
				{Columns: []string{"c"}, Rest: "> 1"}},
			Check: func(*schema.Keyspace, *schema.Table) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
	}
	late := s.Table("ks", "t").Hints("late").ID
	s = WithSystemOf(r, s)
	info := testInfo()
	info.Release = r
	info.EffectiveReplication = 4
	info.Metadata = info.Metadata.WithBuilding(late, true)
	info.Statistics = testStatistics{map[uint32]ViewLag{late: {Due: 2, Oldest: 3e6}}}
	filled := 0
	for ks := range s.All() {
		for _, table := range ks.SortedTables() {
			rows := Rows(context.Background(), table, s, &info, nil)
			if len(rows) > 0 {
				filled++
			}
			for _, r := range rows {
				checkRow(t, table, &r)
			}
		}
	}
	if filled != want {
		t.Errorf("%d tables have rows, want all of the %d that can", filled, want)
	}
}

func checkRow(t *testing.T, table *schema.Table, r *Row) {
	t.Helper()
	rest := r.Clustering
	for _, c := range table.Clustering {
		wire, tail, err := c.Type.ReadKey(nil, rest, c.Desc)
		if err != nil || wire == nil || c.Type.Validate(wire) != nil {
			t.Errorf("%s: clustering column %s: %x, %v", table, c.Name, wire, err)
		}
		rest = tail
	}
	if len(rest) > 0 {
		t.Errorf("%s: %d bytes behind the clustering key", table, len(rest))
	}
	last := uint32(0)
	for _, cell := range r.Cells {
		c := table.ColumnByID(cell.Column)
		if c == nil || c.Kind != schema.Regular || cell.Column < last {
			t.Fatalf("%s: cell of column %d is out of place", table, cell.Column)
		}
		last = cell.Column
		typ := c.Type
		if typ.MultiCell() {
			if cell.Path == nil {
				t.Errorf("%s.%s: no path", table, c.Name)
			}
			continue
		}
		if err := typ.Validate(cell.Value); err != nil {
			t.Errorf("%s.%s: %v", table, c.Name, err)
		}
	}
}

// lister formats the items that a read visits.
type lister struct {
	table *schema.Table
	lines []string
	stop  int // number of rows after which the visitor stops, or 0 for no limit
	rows  int
}

func (l *lister) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if tok != token.Hash(key) {
		return command.Stop, fmt.Errorf("token of %q is %d", key, tok)
	}
	l.lines = append(l.lines, string(key))
	return command.More, nil
}

func (l *lister) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if !r.Exists() {
		return command.Stop, fmt.Errorf("row does not exist")
	}
	var names []string
	for _, c := range l.table.Clustering {
		var wire []byte
		wire, clustering, _ = c.Type.ReadKey(nil, clustering, c.Desc)
		names = append(names, string(wire))
	}
	l.lines = append(l.lines, "  "+strings.Join(names, "."))
	if l.rows++; l.rows == l.stop {
		return command.Stop, nil
	}
	return command.More, nil
}

func read(t *testing.T, c *Catalog, table *schema.Table, cmd command.Read, stop int) []string {
	t.Helper()
	cmd.Table = table.ID
	l := &lister{table: table, stop: stop}
	if err := c.Read(context.Background(), &cmd, l); err != nil {
		t.Fatal(err)
	}
	return l.lines
}

// TestReadBehavesAsAStore checks (A3) on system_schema.columns. It checks the order of rows, reads of single
// partitions, and slices in both directions. If a read stops and resumes at any position, the rows must be the same as
// for an uninterrupted read.
func TestReadBehavesAsAStore(t *testing.T) {
	c := New(testSchema(t), testInfo)
	columns := c.Snapshot().Table("system_schema", "columns")
	key := []byte("ks")
	got := read(t, c, columns, command.Read{Key: key, Token: token.Hash(key)}, 0)
	want := []string{"ks", "  t.c", "  t.k", "  t.m", "  t.v"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one partition (-want +got):\n%s", diff)
	}
	textKey := func(s string) []byte { return cqltype.Native(cqltype.Text).AppendKey(nil, []byte(s), false) }
	prefix := textKey("t")
	slice := []command.Slice{{Start: append(slices.Clone(prefix), textKey("k")...),
		End: append(slices.Clone(prefix), textKey("v")...)}}
	got = read(t, c, columns, command.Read{Key: key, Slices: slice, Reversed: true}, 0)
	if diff := cmp.Diff([]string{"ks", "  t.m", "  t.k"}, got); diff != "" {
		t.Errorf("reversed slice (-want +got):\n%s", diff)
	}
	if got := read(t, c, columns, command.Read{NoRows: true}, 0); len(got) != 6 {
		t.Errorf("partitions are %v, want 6", got)
	}
	if got := read(t, c, columns, command.Read{Key: []byte("nosuch")}, 0); got != nil {
		t.Errorf("rows of a partition that is not there: %v", got)
	}
	for _, reversed := range []bool{false, true} {
		testResume(t, c, columns, reversed)
	}
}

func testResume(t *testing.T, c *Catalog, table *schema.Table, reversed bool) {
	t.Helper()
	var all, pages []Row
	collect := func(cmd command.Read, stop int, into *[]Row) {
		cmd.Table, cmd.Reversed = table.ID, reversed
		if err := c.Read(context.Background(), &cmd, &collector{rows: into, stop: stop}); err != nil {
			t.Fatal(err)
		}
	}
	collect(command.Read{}, 0, &all)
	var cmd command.Read
	for {
		before := len(pages)
		collect(cmd, 7, &pages)
		if len(pages) == before {
			break
		}
		last := pages[len(pages)-1]
		cmd = command.Read{Resume: command.Resume{AfterKey: last.Key, AfterToken: last.token,
			AfterClustering: last.Clustering}}
	}
	if len(all) < 100 {
		t.Fatalf("only %d rows: the test proves nothing", len(all))
	}
	same := slices.EqualFunc(all, pages, func(a, b Row) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Clustering, b.Clustering)
	})
	if !same {
		t.Errorf("reversed=%v: %d rows in pages, %d at once, or in another order", reversed, len(pages), len(all))
	}
}

type collector struct {
	rows  *[]Row
	key   []byte
	stop  int
	count int
}

func (c *collector) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	c.key = slices.Clone(key)
	return command.More, nil
}

func (c *collector) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	*c.rows = append(*c.rows, Row{Key: c.key, Clustering: slices.Clone(clustering), token: token.Hash(c.key)})
	if c.count++; c.count == c.stop {
		return command.Stop, nil
	}
	return command.More, nil
}

// TestPublish checks (A1) and (A2). Listeners must be notified in order, older schemas must be ignored, and the system
// keyspaces must always exist.
func TestPublish(t *testing.T) {
	c := New(schema.New(), testInfo)
	var heard []string
	cancel := c.Subscribe(func(p Publication) {
		if c.Snapshot() != p.New {
			t.Error("the snapshot is not the one that was published")
		}
		heard = append(heard, fmt.Sprint(p.Old.Revision, p.New.Revision, len(p.Events)))
	})
	s := testSchema(t)
	c.Publish(s, schema.Event{Change: schema.Created})
	c.Publish(s)
	cancel()
	s2, _, err := schema.Apply(c.Snapshot(), &schema.DropKeyspace{Name: "ks"})
	if err != nil {
		t.Fatal(err)
	}
	c.Publish(s2)
	if diff := cmp.Diff([]string{"0 8 1"}, heard); diff != "" {
		t.Errorf("publications (-want +got):\n%s", diff)
	}
	if c.Snapshot().Table("system", "local") == nil || c.Snapshot().Keyspace("ks") != nil {
		t.Error("the snapshot is not what was published last")
	}
}

// TestSystemTables checks that the IDs of system tables are unique and that the UUIDs are the same as in Cassandra.
// system_schema must not contain virtual keyspaces.
func TestSystemTables(t *testing.T) {
	c := New(schema.New(), testInfo)
	s := c.Snapshot()
	seen := map[uint32]string{}
	for ks := range s.All() {
		for _, table := range ks.SortedTables() {
			if other := seen[table.ID]; other != "" || table.ID < keys.FirstTable || table.ID >= schema.FirstTableID {
				t.Errorf("id %d of %s is taken by %q or out of range", table.ID, table, other)
			}
			seen[table.ID] = table.String()
		}
	}
	if len(seen) != 82 {
		t.Errorf("%d system tables, want the 61 of Cassandra 4.0, 3 of 5.0, 2 of ScyllaDB and 16 of Ilion", len(seen))
	}
	if got := s.Table("system", "local").UUID.String(); got != "7ad54392-bcdd-35a6-8417-4e047860b377" {
		t.Errorf("UUID of system.local is %s", got)
	}
	if events := s.Table("system_traces", "events"); events.Virtual || events.ID != TraceEventsID {
		t.Errorf("system_traces.events: virtual %v, id %d", events.Virtual, events.ID)
	}
	for _, line := range read(t, c, s.Table("system_schema", "keyspaces"), command.Read{}, 0) {
		if schema.IsVirtualSystem(line) {
			t.Errorf("system_schema.keyspaces lists %s", line)
		}
	}
	got := read(t, c, s.Table("system_virtual_schema", "keyspaces"), command.Read{NoRows: true}, 0)
	slices.Sort(got)
	if diff := cmp.Diff([]string{schema.OwnKeyspace, "system_views", "system_virtual_schema"}, got); diff != "" {
		t.Errorf("virtual keyspaces (-want +got):\n%s", diff)
	}
}

// TestLocalShowsTheDialedAddress checks a node that listens on all addresses. Each client must receive the address that
// it has dialed.
func TestLocalShowsTheDialedAddress(t *testing.T) {
	info := testInfo()
	s := WithSystem(schema.New())
	local := s.Table("system", "local")
	for _, test := range []struct {
		name, dialled, listens, want string
	}{
		{"everywhere", "10.0.0.5:9042", "0.0.0.0:9042", "0a000005"},
		{"everywhere, mapped", "[::ffff:10.0.0.5]:9042", "[::]:9042", "0a000005"},
		{"one address", "10.0.0.5:9042", "10.0.0.9:9042", "0a000009"},
	} {
		info.RPC = netip.MustParseAddrPort(test.listens)
		ctx := WithLocal(context.Background(), netip.MustParseAddrPort(test.dialled))
		rows := Rows(ctx, local, s, &info, nil)
		cells := row.Row{Cells: rows[0].Cells}
		if got := fmt.Sprintf("%x", cells.Cell(local.Column("rpc_address").ID).Value); got != test.want {
			t.Errorf("%s: rpc_address is %s, want %s", test.name, got, test.want)
		}
	}
}

// TestCheckWritable checks Cassandra's error texts for writes to virtual tables.
func TestCheckWritable(t *testing.T) {
	s := WithSystem(testSchema(t))
	for name, want := range map[string]string{
		"system_views.settings":  "Modification is not supported by table system_views.settings",
		"system.local":           "system keyspace is not user-modifiable.",
		"system_traces.sessions": "",
		"ks.t":                   "",
	} {
		ks, table, _ := strings.Cut(name, ".")
		got := ""
		if err := CheckWritable(s.Table(ks, table)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
