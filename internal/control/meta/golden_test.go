// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestNodeBytes pins the encoding of a node's record, with and without a creation ID, because stores contain such
// records.
func TestNodeBytes(t *testing.T) {
	n := &Node{
		ID: topology.NodeID{7}, Internal: "10.0.0.1:7000", CQL: "10.0.0.1:9042", Region: "eu", Zone: "a",
		Tokens: []token.Token{token.Min, -1, token.Max}, State: Leaving,
		Levels: feature.Range{Oldest: 1, Newest: 300}, Joined: time.UnixMilli(1e12),
	}
	check := func(name, want string) {
		t.Helper()
		if got := hex.EncodeToString(n.Append(nil)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	check(
		"without a creation ID",
		"020d31302e302e302e313a373030300d31302e302e302e313a39303432000265750161038000000000000000ffffffffffffffff7f"+
			"ffffffffffffff0201ac0280c0a8ca9a3a0000",
	)
	n.CreationID, n.Start, n.Mark, n.rest = 1<<40, 300, 7, []byte{18, 1, 42}
	check(
		"with a creation ID and a start, and more",
		"020d31302e302e302e313a373030300d31302e302e302e313a39303432000265750161038000000000000000ffffffffffffffff7f"+
			"ffffffffffffff0201ac0280c0a8ca9a3a808080808020020aac02000000000000000712012a00",
	)
}
