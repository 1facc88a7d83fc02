// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/read"
)

// TestScansAreBounded checks that only the most expensive kinds of scans are kept and that the counters of dropped
// tables are removed.
func TestScansAreBounded(t *testing.T) {
	e := &Engine{}
	for i := range 10 * maxScanShapes {
		c := e.scans.counter(1, read.Shape{Text: fmt.Sprint("WHERE c", i, " = ?")})
		c.record(true, 5, ru.Unit*ru.Units(i+1))
		c.record(false, 5, ru.Unit)
		if c != e.scans.counter(1, c.shape) {
			t.Fatal("the same kind is counted twice")
		}
	}
	all := e.Scans(1)
	for _, s := range all {
		if s.Count != 1 || s.Pages != 2 || s.Rows != 10 || s.Units < ru.Unit*9*maxScanShapes {
			t.Errorf("%+v", s)
		}
	}
	if len(all) != maxScanShapes || len(e.Scans(2)) > 0 {
		t.Errorf("%d kinds", len(all))
	}
	if e.scans.keep(schema.New()); len(e.Scans(1)) > 0 {
		t.Error("a table that is gone is remembered")
	}
}
