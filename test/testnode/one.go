// SPDX-License-Identifier: Apache-2.0

package testnode

import (
	"testing"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
)

// One starts a standalone node, which stops at the end of the test. The test fails if the node does not stop cleanly.
// Without other options, the node is in memory and has no HTTP listener. CQL listens on a free port of loopback.
func One(t testing.TB, o options.Options) *node.Node {
	t.Helper()
	if o.CQL == "" {
		o.CQL = "127.0.0.1:0"
	}
	if o.HTTP == "" {
		o.HTTP = "off"
	}
	n, err := node.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}
