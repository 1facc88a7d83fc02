// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// testRecords returns metadata for the table of testSchema with two partitions. One partition is being split, and the
// other partition is being moved. The metadata also contains a completed move, an event of a dropped table, and an
// index that is being built.
func testRecords() *meta.State {
	m, err := topology.New().AddTable(schema.FirstTableID, 2, []topology.Place{{Region: "r",
		Nodes: []topology.NodeID{{1}, {2}, {3}}}})
	if err == nil {
		m, err = m.BeginSplit(1, topology.Position{Ring: 7}, topology.BySize, time.UnixMilli(1e12))
	}
	if err == nil {
		m, _, err = m.AddMember(2, "r", topology.NodeID{4}, topology.Joining)
	}
	if err == nil {
		m, err = m.Mark(2, 5, topology.Leaving)
	}
	if err != nil {
		panic(err)
	}
	m = m.WithReason(2, topology.NewReason(topology.ToHeal, time.UnixMilli(2e12)))
	move := meta.Event{Kind: meta.Move, Table: schema.FirstTableID, Partition: 1, To: topology.NodeID{3},
		Reason: topology.Reason{Cause: topology.ToGrow, Began: 1e12}, Ended: 1e12 + 1500, Bytes: 1 << 20,
		Pause: time.Millisecond}
	gone := move
	gone.Table++
	return meta.Empty().WithTopology(m).WithEvent(move).WithEvent(gone).WithBuilding(schema.FirstTableID+1, true).
		WithBuild(schema.FirstTableID+1, &meta.Build{Token: 1 << 62, Rows: 42})
}

// TestIlionTables checks the tables of keyspace ilion. They must contain the partitions of stored tables, token ranges,
// pending changes, completed changes, and table advice.
func TestIlionTables(t *testing.T) {
	s, info := WithSystem(testSchema(t)), testInfo()
	for name, want := range map[string]string{
		"advice": "ks t 1: basis=all ddl=CREATE effect=['bytes: 20.0 MB -> 1.0 MB (+-3 %)'] " +
			"evidence=['bytes: 20.0 MB'] headline=large instead=['or not'] kind=large level=note proposal=divide\n",
		"physical_partitions": "ks t -9223372036854775808 1: disk_bytes=300 end_token=-1 epoch=1 leader=01000000 " +
			"logical_partitions=2 reads=5 replicas[]=voter replicas[]=voter replicas[]=voter writes=7\n" +
			"ks t 0 2: end_token=9223372036854775807 epoch=1 replicas[]=voter replicas[]=leaving " +
			"replicas[]=voter replicas[]=joining\n",
		"partition_usage": "ks t 1: bytes_per_second=100.0 bytes_read=8 bytes_written=9 conditions=0 " +
			"hot_since=1970-01-01T00:01:10.000Z hottest_key=k = 7 hottest_key_share=0.5 point_reads=4 " +
			"request_units=4.0 requests=4 requests_per_second=9.0 ru_per_second=90.0 scans=0 slices=0 throttled=3 " +
			"throttled_per_second=0.0 throughput=180 updates=0 utilisation=0.5 writes=0\n",
		"usage_history": "ks t 1 1970-01-01T00:01:00.000Z: bytes=1000 given=1800 peak_ru_per_second=50.0 " +
			"request_units=900.0 requests=90 throttled=0 top_key=k = 7 top_key_units=1.0 utilisation=0.5\n",
		"hot_keys": "ks t 1 1: key=k = 7 minute_units=1.0 noise=0.5 ru_per_second=45.0 share=0.5 token=7 " +
			"too_high_by=0.25\n",
		"large_keys": "ks t 1 1: bytes=5 estimated=true key=k = 7 token=7\n",
		"user_usage": "app: request_units=12.5 requests=3 requests_per_second=2.0 ru_per_second=1.5 throttled=1 " +
			"throttled_per_second=0.5\n",
		"index_builds": "ks t t_m_idx: percent=75 rows=42\n",
		"partition_changes": "ks t 1 1: began_at=2001-09-09T01:46:40.000Z cause=size kind=split other_id=3\n" +
			"ks t 2 1: began_at=2033-05-18T03:33:20.000Z cause=node loss from_node=02000000 kind=move " +
			"to_node=04000000\n",
		"partition_history": "ks 1: began_at=2001-09-09T01:46:40.000Z cause=more replicas disk_bytes=1048576 " +
			"ended_at=2001-09-09T01:46:41.500Z kind=move outcome=done partition_id=1 pause_us=1000 table_name=t " +
			"to_node=03000000 took_ms=1500\n",
	} {
		table := s.Table(schema.OwnKeyspace, name)
		rows := Rows(t.Context(), table, s, &info, nil)
		slices.SortFunc(rows, func(a, b Row) int { return a.compare(&b) })
		var got strings.Builder
		for i := range rows {
			got.WriteString(lineOf(table, &rows[i]))
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if other := Rows(t.Context(), table, s, &info, []byte("other")); len(other) > 0 {
			t.Errorf("%s: %d rows of a keyspace that was not asked for", name, len(other))
		}
	}
}

// lineOf formats the key and the non-null values of a row.
func lineOf(table *schema.Table, r *Row) string {
	key := []string{string(r.Key)}
	rest := r.Clustering
	for _, c := range table.Clustering {
		var wire []byte
		wire, rest, _ = c.Type.ReadKey(nil, rest, c.Desc)
		key = append(key, c.Type.Text(wire))
	}
	out := strings.Join(key, " ") + ":"
	for _, cell := range r.Cells {
		c := table.ColumnByID(cell.Column)
		if c.Type.MultiCell() {
			out += fmt.Sprintf(" %s[]=%s", c.Name, cell.Value)
		} else {
			out += fmt.Sprintf(" %s=%s", c.Name, strings.TrimSuffix(c.Type.Text(cell.Value),
				"-0000-0000-0000-000000000000"))
		}
	}
	return out + "\n"
}
