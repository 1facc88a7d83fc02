// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bench"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// TestVerify checks that a verified run finds no fault in a correct server. The run must find rows that another client
// has replaced with an old version.
func TestVerify(t *testing.T) {
	db, err := ilion.Start(t.Context(), ilion.Options{Periodic: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	o := bench.Options{Workload: "mixed", Addr: db.CQLAddr().String(), Connections: 3, InFlight: 8, RowSize: 300,
		Keys: 20, Distribution: "uniform", Duration: 300 * time.Millisecond, Consistency: dberr.Quorum, Verify: true}
	rep, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Requests == 0 || rep.Errors != 0 || rep.Wrong != 0 || !strings.Contains(rep.Text(), "0 wrong responses") {
		t.Errorf("report: %+v", rep)
	}
	c, err := rawclient.Dial(t.Context(), o.Addr, rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, done := context.WithCancel(t.Context())
	spoilt := make(chan error, 1)
	go func() {
		defer close(spoilt)
		for ctx.Err() == nil {
			_, err := c.Query(fmt.Sprintf("UPDATE ilion_bench.rows SET c0 = '%016x%016x' WHERE k = '%016x'", 7, 0, 7))
			if err != nil {
				spoilt <- err
				return
			}
		}
	}()
	rep, err = bench.Run(t.Context(), o)
	done()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-spoilt; err != nil {
		t.Fatal(err)
	}
	if rep.Wrong == 0 || !strings.Contains(rep.FirstWrong, "key 7") {
		t.Errorf("an old version was not noticed: %+v", rep)
	}
}
