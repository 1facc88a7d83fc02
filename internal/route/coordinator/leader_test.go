// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// TestIndexQueriesOfLeaders checks that a required revision reaches the leader of every partition of the table. A
// change of metadata records must reach the leader of the meta partition. Both commands must find a leader that the
// coordinator does not know.
func TestIndexQueriesOfLeaders(t *testing.T) {
	f := newFleet()
	s := mapOf(t, 3)
	c := f.join(t, s, Options{})
	parts := s.Partitions(table)
	for i, p := range parts {
		f.leader[p.ID] = node(2 + i)
	}
	if err := c.Require(t.Context(), table, 5, time.Second); err != nil {
		t.Fatal(err)
	}
	version, err := c.Change(t.Context(), parts[2], command.Records{Expect: 6}, time.Second)
	if err != nil || version != 7 {
		t.Errorf("the change: version %d, %v", version, err)
	}
	for _, want := range []string{"require 1 at 2", "require 2 at 3", "require 3 at 4", "change 3 at 4"} {
		if !slices.Contains(f.log, want) {
			t.Errorf("no %q among %q", want, f.log)
		}
	}
}
