// SPDX-License-Identifier: Apache-2.0

package process

import "testing"

// TestDescriptorsAreShared checks that clients cannot use the file descriptors that the store needs. Every limit must
// leave descriptors for tables, and no descriptor may be assigned twice.
func TestDescriptorsAreShared(t *testing.T) {
	for _, c := range []struct{ limit, clients, tables, connections int }{
		{1 << 20, 20_000, 1000, 20_000},
		{20_000, 20_000, 1000, 17_744},
		{1024, 20_000, 128, 512},
		{256, 20_000, 32, 1},
		{20_000, 10, 1000, 10},
	} {
		tables, connections := ShareDescriptors(c.limit, c.clients)
		if tables != c.tables || connections != c.connections {
			t.Errorf("limit %d: %d tables, %d connections, want %d and %d", c.limit, tables, connections, c.tables,
				c.connections)
		}
	}
}
