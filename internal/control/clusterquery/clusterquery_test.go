// SPDX-License-Identifier: Apache-2.0

package clusterquery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func echo(_ context.Context, question []byte) (string, error) {
	if len(question) == 0 {
		return "", errors.New("empty question")
	}
	return string(question), nil
}

// TestHandlersStart verifies that queries fail until Start is called, and that unknown subjects fail afterward.
func TestHandlersStart(t *testing.T) {
	var h Handlers
	HandleJSON(&h, "echo", echo)
	if _, err := h.Serve(t.Context(), "echo", []byte("a")); err == nil || err.Error() != "the node is starting" {
		t.Fatal("query before the start:", err)
	}
	h.Start()
	if out, err := h.Serve(t.Context(), "echo", []byte("a")); err != nil || string(out) != `"a"` {
		t.Fatalf("response %q: %v", out, err)
	}
	if _, err := h.Serve(t.Context(), "echo", nil); err == nil {
		t.Fatal("no error of the handler")
	}
	if _, err := h.Serve(t.Context(), "other", nil); err == nil {
		t.Fatal("no error for an unknown subject")
	}
}

// TestStandalone verifies that a standalone node queries only itself.
func TestStandalone(t *testing.T) {
	var c *Client
	responses, silent, err := All(t.Context(), c, "echo", []byte("a"), time.Second, echo)
	if err != nil || !slices.Equal(responses, []string{"a"}) || silent == nil || len(silent) > 0 {
		t.Fatal(responses, silent, err)
	}
	if c.LiveNodes() != nil {
		t.Fatal("a standalone node has other nodes")
	}
	if _, err := c.Query(t.Context(), [16]byte{1}, "echo", nil); err == nil {
		t.Fatal("no error for an unknown node")
	}
}
