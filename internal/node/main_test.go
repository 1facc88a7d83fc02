// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/test/eventually"
)

// TestMain checks rule D2 for every test of this package. A closed node must leave no goroutine.
func TestMain(m *testing.M) {
	eventually.AtOnce(2)
	goleak.VerifyTestMain(m)
}
