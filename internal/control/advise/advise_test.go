// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// logs generates the logs of servers for two weeks. The first server writes far more than the other servers.
func logs(w *fixture, insert func(server string, at time.Time, message string)) {
	for i := range 20 {
		rows := 140
		if i == 0 {
			rows = 5_600
		}
		for j := range rows {
			at := epoch.Add(time.Duration(j) * (14 * 24 * time.Hour / time.Duration(rows)))
			insert(fmt.Sprint("web-", i+1), at, strings.Repeat("x", 2500))
		}
	}
}

// TestServerLogs checks a table of server logs. If the key is only the server, logical partitions grow indefinitely and
// are uneven. If the key contains the hour, the report must have no findings.
func TestServerLogs(t *testing.T) {
	w := newFixture(t, "server_logs(server text | log_time timestamp) log_level text; message text")
	logs(w, func(server string, at time.Time, message string) { w.insert(server, at, "INFO", message) })
	r := Advise(w.input())
	golden(t, "server_logs", &r)
	if !r.has(Unbounded) || !r.has(Large) || !r.has(Skewed) {
		t.Errorf("found %v", r.kinds())
	}

	w = newFixture(t, "server_logs(log_hour timestamp; server text | log_time timestamp) log_level text; message text")
	logs(w, func(server string, at time.Time, message string) {
		w.insert(at.Truncate(time.Hour), server, at, "INFO", message)
	})
	r = Advise(w.input())
	golden(t, "server_logs_by_hour", &r)
	if len(r.Findings) > 0 {
		t.Errorf("with the hour in the key: %v", r.kinds())
	}
}

// TestOneRowAnHour checks a table whose key is an hour, so that each row replaces the previous row. Keys that are exact
// times or IDs must cause no finding.
func TestOneRowAnHour(t *testing.T) {
	const declaration = "server_logs(log_hour timestamp) log_level text; message text; server text"
	w := newFixture(t, declaration)
	for i := range 48 {
		w.insert(epoch.Add(time.Duration(i)*time.Hour), "INFO", "started", "web-1")
	}
	r := Advise(w.input())
	golden(t, "server_logs_one_row", &r)
	if !r.has(SingleRow) || len(r.Findings) > 1 {
		t.Errorf("found %v", r.kinds())
	}
	w.writes = 48_000
	if r = Advise(w.input()); !r.has(SingleRow) || r.Findings[0].Effect[0].After != 1000 {
		t.Errorf("by writes: %+v", r.Findings)
	}
	instants := newFixture(t, declaration)
	for i := range 48 {
		instants.insert(epoch.Add(time.Duration(i*3_600_017)*time.Millisecond), "INFO", "started", "web-1")
	}
	ids := newFixture(t, "user(id timeuuid) message text")
	for i := range 48 {
		ids.insert(epoch.Add(time.Duration(i)*time.Hour), "hello")
	}
	for _, w := range []*fixture{instants, ids} {
		w.writes = 48_000
		if r := Advise(w.input()); len(r.Findings) > 0 {
			t.Errorf("%s: %v", w.table, r.kinds())
		}
	}
}

// foods fills a table with foods in groups of uneven size.
func foods(t *testing.T, groups int) *fixture {
	w := newFixture(t, "foods(food_group text | id int) description text")
	names := []string{"Beef Products", "Vegetables and Vegetable Products", "Soups, Sauces, and Gravies",
		"Baked Products", "Sausages and Luncheon Meats"}
	for i := range groups {
		name := fmt.Sprint("Group ", i)
		if i < len(names) {
			name = names[i]
		}
		for j := range 5 + 400/(i+1) {
			w.insert(name, j, strings.Repeat("food ", 20))
		}
	}
	w.parts, w.units = 3, 18_000
	return w
}

// TestFoodGroups checks a throughput of 18,000 RU/s over three physical partitions. The keys are groups. With 25
// groups, the partitions cannot be filled evenly. With a thousand groups, they can be filled evenly.
func TestFoodGroups(t *testing.T) {
	r := Advise(foods(t, 25).input())
	golden(t, "foods", &r)
	if !r.has(FewKeys) || len(r.Findings) > 1 {
		t.Errorf("found %v", r.kinds())
	}
	if r := Advise(foods(t, 1000).input()); len(r.Findings) > 0 {
		t.Errorf("of a thousand groups: %v", r.kinds())
	}
	small := foods(t, 25)
	small.units = 0
	if r := Advise(small.input()); len(r.Findings) > 0 {
		t.Errorf("without a throughput: %v", r.kinds())
	}
}

// TestBusyKey checks that a logical partition that causes most of a table's request units is reported, even if it is
// not larger than the other logical partitions. It is not reported if the table has little load or an even load.
func TestBusyKey(t *testing.T) {
	advise := func(units, keyUnits float64) Report {
		w := foods(t, 1000)
		w.units = 0
		in := w.input()
		in.Traffic = Traffic{Minutes: 10, Units: units, KeyUnits: keyUnits, Key: "food_group = 'x'"}
		return Advise(in)
	}
	r := advise(5e6, 4e6)
	if !r.has(Busy) || len(r.Findings) > 1 {
		t.Fatalf("found %v", r.kinds())
	}
	f := &r.Findings[0]
	if f.Level != Warning || f.Evidence[0].Value != 80 || math.Abs(f.Evidence[2].Value-4e6/600) > 1e-9 ||
		f.Effect[0].After != 4e6/600/2 || f.Effect[1] != (Change{What: f.Effect[1].What, Before: 10_000, After: 20_000,
		Unit: RUPerSec}) || !strings.Contains(f.Proposal.DDL, "PRIMARY KEY ((food_group, copy), id)") {
		t.Errorf("%+v", f)
	}
	for _, c := range [][2]float64{{5e6, 1e6}, {5e4, 4e4}, {0, 0}} {
		if r := advise(c[0], c[1]); len(r.Findings) > 0 {
			t.Errorf("%.0f of %.0f RU: %v", c[1], c[0], r.kinds())
		}
	}
}

// TestMagazines checks two queries. A list of all magazines reads all physical partitions, but the magazines of one
// publisher are in one partition. If an index finds the magazines, the report must propose a table by publisher.
func TestMagazines(t *testing.T) {
	fill := func(w *fixture, values func(i int) []any) *fixture {
		for i := range 300 {
			w.insert(values(i)...)
		}
		w.parts = 3
		return w
	}
	names := fill(newFixture(t, "magazine_name(id int) name text; publicationfrequency text"), func(i int) []any {
		return []any{i, fmt.Sprint("Magazine ", i), "monthly"}
	})
	names.shapes = []Shape{{Count: 40, Rows: 40 * 300, Units: 40 * 13.6}}
	r := Advise(names.input())
	golden(t, "magazine_name", &r)
	if !r.has(FanOut) || len(r.Findings) > 1 || r.Findings[0].Level != Warning {
		t.Errorf("found %v", r.kinds())
	}
	names.parts = 1
	if r := Advise(names.input()); !r.has(FanOut) || r.Findings[0].Level != Note {
		t.Errorf("on one physical partition: %+v", r.Findings)
	}
	names.parts, names.shapes = 3, nil
	if r := Advise(names.input()); len(r.Findings) > 0 {
		t.Errorf("read by its key only: %v", r.kinds())
	}

	indexed := fill(newFixture(t, "magazine_name(id int) name text; publicationfrequency text; publisher text"),
		func(i int) []any {
			return []any{i, fmt.Sprint("Magazine ", i), "monthly", fmt.Sprint("Publisher ", i%20)}
		})
	indexed.table.Indexes["by_publisher"] = &schema.Index{Name: "by_publisher", Column: "publisher"}
	r = Advise(indexed.input())
	golden(t, "magazine_index", &r)
	if !r.has(FanOut) || !strings.Contains(r.Findings[0].Proposal.DDL, "PRIMARY KEY (publisher, id)") {
		t.Errorf("an index: %+v", r.Findings)
	}
	indexed.parts = 2
	if r := Advise(indexed.input()); len(r.Findings) > 0 {
		t.Errorf("an index on two physical partitions: %v", r.kinds())
	}

	const declaration = "magazine_publisher(publisher text | id int DESC) name text; publicationfrequency text"
	publishers := fill(newFixture(t, declaration),
		func(i int) []any {
			return []any{fmt.Sprint("Publisher ", i%60), i, fmt.Sprint("Magazine ", i), "monthly"}
		})
	r = Advise(publishers.input())
	golden(t, "magazine_publisher", &r)
	if len(r.Findings) > 0 {
		t.Errorf("by publisher: %v", r.kinds())
	}
}

// TestFiltering checks reads of one server's logs by their level. These reads examine all rows of the server and return
// one row in fifty, so the report must propose a clustering order that starts with the level. It must have no finding
// if a read returns most of the examined rows or if no clustering order is better.
func TestFiltering(t *testing.T) {
	w := newFixture(t, "server_logs(server text | log_time timestamp; log_level text) message text; user text")
	levels := []string{"info", "debug"}
	for i := range 2000 {
		level := levels[i%2]
		if i%50 == 0 {
			level = "error"
		}
		at := epoch.Add(time.Duration(i) * time.Minute)
		w.insert(fmt.Sprint("web-", i%4), at, level, strings.Repeat("m", 400), "theo")
	}
	read := func(text string, rows uint64, units float64, equal ...string) *Report {
		w.shapes = []Shape{{Text: "WHERE " + text, Keyed: true, Equal: equal, Count: 20, Rows: 20 * rows,
			Units: 20 * units}}
		r := Advise(w.input())
		return &r
	}
	r := read("server = ? AND log_level = ?", 10, 22.7, "server", "log_level")
	golden(t, "server_logs_filtered", r)
	if !r.has(Filtering) || r.has(FanOut) ||
		!strings.Contains(r.Findings[0].Proposal.DDL, "PRIMARY KEY (server, log_level, log_time)") {
		t.Errorf("found %+v", r.Findings)
	}
	r = read("server = ? AND user = ?", 10, 22.7, "server", "user")
	if !r.has(Filtering) || !strings.Contains(r.Findings[0].Proposal.Text, "An update of user") {
		t.Errorf("by a regular column: %+v", r.Findings)
	}
	if r := read("server = ? AND log_level = ?", 400, 22.7, "server", "log_level"); r.has(Filtering) {
		t.Errorf("most rows are returned: %+v", r.Findings)
	}
	if r := read("server = ? AND message > ?", 10, 22.7, "server"); r.has(Filtering) {
		t.Errorf("no column is compared with one value: %+v", r.Findings)
	}
}

// TestConditions checks that conditional writes are reported if they are at least a tenth of all writes. Increments of
// counters are not conditional writes.
func TestConditions(t *testing.T) {
	w := newFixture(t, "account(name text) balance int")
	for i := range 50 {
		w.insert(fmt.Sprint("account ", i), i)
	}
	w.writes, w.conditions = 1000, 400
	r := Advise(w.input())
	golden(t, "account", &r)
	if !r.has(Condition) || len(r.Findings) > 1 {
		t.Errorf("found %v", r.kinds())
	}
	for _, conditions := range []uint64{50, 99} {
		if w.conditions = conditions; hasConditions(w) {
			t.Errorf("%d conditions", conditions)
		}
	}
	counters := newFixture(t, "n(k text) n counter")
	counters.writes, counters.conditions = 1000, 1000
	if r := Advise(counters.input()); r.has(Condition) {
		t.Error("counters have conditions")
	}
}

// TestNothingToSay checks that an empty table and a table with a few users and their messages have no findings.
func TestNothingToSay(t *testing.T) {
	for _, declaration := range []string{
		"user(id uuid) user text; message text",
		"user(user text | id int) message text",
		"user(firstname text; lastname text | id int) message text",
		"server_logs(log_hour timestamp) message text",
		"t(id1 int; id2 int | c1 text; c2 text) k int; v text",
	} {
		w := newFixture(t, declaration)
		w.parts = 4
		if r := Advise(w.input()); len(r.Findings) > 0 {
			t.Errorf("%s: %v", declaration, r.kinds())
		}
	}
	w := newFixture(t, "user(user text | id int) message text")
	for i := range 200 {
		for j := range 2 + i%3 {
			w.insert(fmt.Sprint("theo ", i), j, "hello")
		}
	}
	if r := Advise(w.input()); len(r.Findings) > 0 {
		t.Errorf("found %v", r.kinds())
	}
}

// TestLimits checks that a logical partition of at least 10 MB or 100,000 values is reported, and that a logical
// partition of at least 100 MB is reported as a warning.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		rows, bytes int
		want        Level
	}{
		{900, 5000, ""}, {1050, 5000, Note}, {9_900, 1, ""}, {10_100, 1, Warning}, {1_900, 30_000, Warning},
	} {
		w := newFixture(t, "notes(owner text | title text) a text; b text; c text; d text; e text; f text; g text; h "+
			"text;"+
			"i text; j text")
		for i := range tc.rows {
			body := strings.Repeat("x", tc.bytes)
			if tc.bytes > 1 {
				w.insert("theo", fmt.Sprintf("%07d", i*7919%tc.rows), body, body)
				continue
			}
			w.insert("theo", fmt.Sprintf("%07d", i*7919%tc.rows), body, body, body, body, body, body, body, body, body,
				body)
		}
		in := w.input()
		r := Advise(in)
		if found := len(r.Findings) > 0; found != (tc.want != "") || found && r.Findings[0].Level != tc.want {
			t.Errorf("%d rows of %d bytes: %+v, largest %+v", tc.rows, tc.bytes, r.Findings, r.Figures.Largest)
		}
	}
}

// TestExpected checks the hotel example in Cassandra's documentation.
func TestExpected(t *testing.T) {
	got := Expected(73_000, 4, 3, 0, 16, 0, 7)
	if got.Values != 73_000 || math.Abs(got.Bytes-1_095_016) > 0.5 {
		t.Errorf("%+v", got)
	}
	if got := Expected(10, 6, 2, 1, 8, 20, 30); got.Values != 10*3+1 || got.Bytes != 8+20+300+8*31 {
		t.Errorf("with a static column: %+v", got)
	}
}

func hasConditions(w *fixture) bool {
	r := Advise(w.input())
	return r.has(Condition)
}

// TestEveryFindingHasNumbers checks the findings for tables of all kinds. Every finding must contain evidence, a
// proposal, and the effect of the proposal, all with numbers. The same input must yield the same report. Proposals
// must keep all rows and values.
func TestEveryFindingHasNumbers(t *testing.T) {
	declarations := []*schema.Table{
		newFixture(t, "a(k text | c timestamp) v text").table,
		newFixture(t, "b(k text | c text; d int) s text static; v text").table,
		newFixture(t, "c(k timestamp) v text").table, newFixture(t, "d(k text; l int | c timeuuid DESC) v text").table,
	}
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, rapid.SampledFrom(declarations).Draw(t, "table"))
		r := Advise(in)
		for _, f := range r.Findings {
			said := f.Headline != "" && f.Proposal.Text != "" && f.Basis != ""
			if !said || len(f.Evidence) == 0 || len(f.Effect) == 0 {
				t.Fatalf("%+v", f)
			}
			for _, e := range f.Evidence {
				if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) || e.Value < 0 {
					t.Fatalf("%s: %+v", f.Headline, e)
				}
			}
			for _, c := range f.Effect {
				if n := c.Before + c.After + c.OffBy; math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
					t.Fatalf("%s: %+v", f.Headline, c)
				}
			}
		}
		if again := Advise(in); !reflect.DeepEqual(r, again) {
			t.Fatalf("once %+v, then %+v", r, again)
		}
		p := populationOf(in)
		for _, o := range candidates(in.Table, p, 0, 0) {
			for _, m := range p.members {
				parts, _ := o.divide(m.SampledPartition)
				var rows float64
				for _, x := range parts {
					rows += x.Rows
				}
				if math.Abs(rows-m.Rows) > 1e-6*m.Rows {
					t.Fatalf("%s: %v rows of %v", o.short(), rows, m.Rows)
				}
			}
			if o.largest.Bytes > 1.0001*p.members[0].Bytes {
				t.Fatalf("%s: %v bytes of %v", o.short(), o.largest.Bytes, p.members[0].Bytes)
			}
		}
	})
}

// draw generates the sample of a table.
func draw(t *rapid.T, table *schema.Table) *Input {
	in := &Input{Table: table, Physical: rapid.IntRange(1, 5).Draw(t, "physical"),
		Throughput: schema.Throughput{Units: rapid.SampledFrom([]int64{0, 18_000, 90_000}).Draw(t, "units")}}
	if in.Traffic.Minutes = float64(rapid.IntRange(0, 60).Draw(t, "minutes")); in.Traffic.Minutes > 0 {
		in.Traffic.Units = rapid.Float64Range(0, 1e8).Draw(t, "spent")
		in.Traffic.Key, in.Traffic.KeyUnits = "k = 1", in.Traffic.Units*rapid.Float64Range(0, 1).Draw(t, "share")
	}
	for i := range rapid.IntRange(0, in.Physical).Draw(t, "samples") {
		s := Sample{Partition: uint64(i), Logical: rapid.Float64Range(0, 1e6).Draw(t, "logical"),
			Writes: rapid.Uint64Range(1e5, 1e6).Draw(t, "writes"), Conditions: rapid.Uint64Range(0, 1e5).Draw(t, "if")}
		s.Complete, s.HeavySpots = rapid.Bool().Draw(t, "complete"), 32
		for j := range rapid.IntRange(0, 20).Draw(t, "partitions") {
			s.Partitions = append(s.Partitions, drawPartition(t, table, i*100+j))
		}
		in.Samples = append(in.Samples, s)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "shapes") {
		in.Shapes = append(in.Shapes, Shape{Text: fmt.Sprint("WHERE x", i, " = ?"), Count: uint64(i), Rows: 10,
			Units: rapid.Float64Range(1, 1e6).Draw(t, "cost"), Equal: []string{"v"},
			Keyed: rapid.Bool().Draw(t, "keyed")})
	}
	return in
}

func drawPartition(t *rapid.T, table *schema.Table, number int) (p storage.SampledPartition) {
	wire := func(c *schema.Column, n int) []byte {
		switch at := epoch.Add(time.Duration(n) * time.Minute); c.Type.Kind {
		case cqltype.Timestamp:
			return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
		case cqltype.Timeuuid:
			u := cqltype.MinTimeUUID(at.UnixMilli())
			return u[:]
		case cqltype.Int:
			return binary.BigEndian.AppendUint32(nil, uint32(n))
		}
		return fmt.Append(nil, "value ", n)
	}
	var components [][]byte
	for _, c := range table.PartitionKey {
		components = append(components, wire(c, number*60))
	}
	p.Key = token.AppendKey(nil, components...)
	p.Token, p.Heavy = token.Hash(p.Key), rapid.Bool().Draw(t, "heavy")
	kept := 1
	if len(table.Clustering) > 0 {
		kept = rapid.IntRange(0, 60).Draw(t, "kept")
	}
	weight, step := rapid.Float64Range(1, 1e4).Draw(t, "weight"), rapid.IntRange(1, 3000).Draw(t, "step")
	for i := range kept {
		r := storage.SampledRow{Values: 1, Weight: weight,
			Bytes: int32(len(p.Key)) + rapid.Int32Range(30, 5000).Draw(t, "bytes")}
		for j, c := range table.Clustering {
			r.Clustering = c.Type.AppendKey(r.Clustering, wire(c, i*step/(len(table.Clustering)-j)), c.Desc)
		}
		r.Written = epoch.UnixMicro() + int64(i*step)*6e7
		p.Kept = append(p.Kept, r)
		p.Rows, p.Values, p.Bytes = p.Rows+weight, p.Values+weight, p.Bytes+weight*float64(r.Bytes)
	}
	return p
}

// BenchmarkAdvise measures the advice for a sampled table of 10^6 rows. The cost does not depend on the size of the
// table.
func BenchmarkAdvise(b *testing.B) {
	w := newFixture(b, "t(k int | c timestamp) v text")
	for i := range 10_000 {
		for j := range 100 {
			w.insert(i%9000*j/99, epoch.Add(time.Duration(i*100+j)*time.Second), "value of some length")
		}
	}
	in := w.input()
	b.ReportAllocs()
	for b.Loop() {
		Advise(in)
	}
}
