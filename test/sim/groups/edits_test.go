// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// edits returns the mutations of the product that TestMutationsAreFound plants.
func edits() []planted.Edit {
	const raftgroup = "../../../internal/replica/raftgroup/"
	return []planted.Edit{
		{File: raftgroup + "apply.go", Old: "g.lease.revoke() // the lease depends on a quorum of the old members",
			New: "if !mutated(`members`) { g.lease.revoke() }"},
		{File: raftgroup + "transfer.go", Old: "g.lease.revoke()\n",
			New: "if !mutated(`transfer`) { g.lease.revoke() }\n"},
	}
}

// TestEditsApply checks that the source files contain the texts that the mutations replace. TestMutationsAreFound runs
// only in builds with invariant checks. TestEditsApply detects a renamed variable in all builds.
func TestEditsApply(t *testing.T) { planted.Check(t, edits()...) }
