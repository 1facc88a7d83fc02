// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// TestConfirmed proves that only a yes takes a node out of the cluster, and that the question says which node that is.
func TestConfirmed(t *testing.T) {
	s := &admin.Status{Nodes: []admin.NodeStatus{
		{ID: "abcd1234ffff", CQL: "127.0.0.1:9042", State: "up", Replicas: 12},
		{ID: "99990000ffff", CQL: "127.0.0.2:9042"},
	}}
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "\n": false, "": false,
		"n\n": false, "yep\n": false} {
		var out strings.Builder
		ok, err := confirmed(strings.NewReader(answer), &out, s, "ABCD")
		if err != nil || ok != want {
			t.Errorf("%q: %v, %v", answer, ok, err)
		}
		text := out.String()
		if !strings.Contains(text, "Node abcd1234 at 127.0.0.1:9042 is up and has 12 replicas") ||
			strings.Contains(text, "9999") {
			t.Errorf("the question: %s", text)
		}
	}
}
