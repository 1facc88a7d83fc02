// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestRestoreOfLifetimes checks that items with lifetimes can be restored only if every node supports lifetimes.
func TestRestoreOfLifetimes(t *testing.T) {
	var b row.Builder
	b.Reset(1)
	b.LiveFor(row.DefaultLifetime, 5)
	if err := writable(feature.Lifetimes, b.Bytes()); err != nil {
		t.Error(err)
	}
	if err := writable(feature.Lifetimes-1, b.Bytes()); err == nil || !strings.Contains(err.Error(), "ilion upgrade") {
		t.Errorf("below their level: %v", err)
	}
	b.Reset(1)
	b.Live(0, 0)
	if err := writable(feature.Oldest, b.Bytes()); err != nil {
		t.Error(err)
	}
}
