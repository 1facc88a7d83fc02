// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// TestPaceOfReplacedReplica checks the load of a replica that replaces another replica of the same partition on a node.
// The new replica has counted less work than the previous replica, but its load must not be negative. Otherwise, the
// load would be reported as the highest possible load, and other replicas would move away from the node.
func TestPaceOfReplacedReplica(t *testing.T) {
	p := loadRate{}.next(7, 1000*ru.Unit, 5*time.Second)
	if p.rate != 0 {
		t.Errorf("a new replica has a rate of %v", p.rate)
	}
	p = p.next(7, 7000*ru.Unit, time.Hour)
	if p.rate < 1 || p.rate > 2 {
		t.Errorf("6000 request units in an hour are %v a second", p.rate)
	}
	next := p.next(8, ru.Unit, 5*time.Second)
	if next.rate != p.rate {
		t.Errorf("a replica that replaces a replica with a rate of %v starts with %v", p.rate, next.rate)
	}
	next = next.next(8, 2*ru.Unit, 5*time.Second)
	if next.rate < 0 || next.rate > p.rate {
		t.Errorf("one request unit in 5 s changes a rate of %v to %v", p.rate, next.rate)
	}
}
