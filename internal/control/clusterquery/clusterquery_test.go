// SPDX-License-Identifier: Apache-2.0

package clusterquery

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/replica/rpc"
)

var echoCall = rpc.Declare[string, string](rpc.Spec{Name: "echo", Since: 1, Timeout: time.Second})

// TestStandalone checks that a standalone node queries only itself.
func TestStandalone(t *testing.T) {
	var c *Client
	responses, silent, err := All(t.Context(), c, echoCall, "a",
		func(_ context.Context, text string) (string, error) { return text, nil })
	if err != nil || !slices.Equal(responses, []string{"a"}) || silent == nil || len(silent) > 0 {
		t.Fatal(responses, silent, err)
	}
	if c.LiveNodes() != nil {
		t.Fatal("a standalone node has other nodes")
	}
	if _, err := Query(t.Context(), c, [16]byte{1}, echoCall, "a"); err == nil {
		t.Fatal("no error for an unknown node")
	}
}
