// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestKeptOptions checks that a connection keeps a limited number of bytes of STARTUP options. It must drop the
// longest options first.
func TestKeptOptions(t *testing.T) {
	kept := keptOptions(cqlwire.Startup{"CQL_VERSION": "3.0.0", "A": "b", "DRIVER_CONFIG": strings.Repeat("x", 9000)})
	if len(kept) != 2 || kept["CQL_VERSION"] != "3.0.0" || kept["A"] != "b" {
		t.Errorf("kept %v", kept)
	}
}
