// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// BenchmarkExecute measures a prepared SELECT and a prepared INSERT of one row on an in-memory store.
func BenchmarkExecute(b *testing.B) {
	benchmarkExecute(b, Options{})
}

// BenchmarkExecuteInCluster measures the statements of BenchmarkExecute with the additional work of a cluster. The
// session copies values, checks whether reads can be served locally, and returns data locations.
func BenchmarkExecuteInCluster(b *testing.B) {
	var w *fixture
	routing := &TopologyRouting{Coordinator: fakeRouting{
		func() *topology.Snapshot { return w.coordinator.Topology() }, nil}, Leaders: fixedLeader{}}
	benchmarkExecute(b, Options{StaleAfterReturn: true, Routing: routing}, &w)
}

func benchmarkExecute(b *testing.B, o Options, made ...**fixture) {
	w := newFixture(b, o)
	for _, m := range made {
		*m = w
	}
	w.client = w.NewSession(Client{Version: 4, Tablets: o.Routing != nil})
	w.query(b, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	w.query(b, "INSERT INTO ks.t (k, v) VALUES (1, 'some text that is stored')")
	for name, c := range map[string]Request{
		"select": {ID: w.prepared(b, w.client, "SELECT v FROM ks.t WHERE k = ?").ID, Values: [][]byte{i32(1)}},
		"insert": {ID: w.prepared(b, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?)").ID,
			Values: [][]byte{i32(1), []byte("some text")}},
	} {
		b.Run(name, func(b *testing.B) {
			call := &Call{Request: c}
			call.Request.Version, call.Request.Consistency, call.Request.PageSize = 4, dberr.One, 5000
			done := make(completionChannel, 1)
			call.CompleteTo(done)
			b.ReportAllocs()
			for b.Loop() {
				if w.client.Execute(context.Background(), call) == Pending {
					<-done
				}
				if call.Result.Err != nil {
					b.Fatal(call.Result.Err)
				}
			}
		})
	}
}
