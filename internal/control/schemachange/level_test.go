// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestContainersNeedTheirLevel proves that no container is made while nodes may be of a build that does not know them,
// and that tables are.
func TestContainersNeedTheirLevel(t *testing.T) {
	for level := feature.Oldest; level <= feature.Newest; level++ {
		c := Changer{Level: func(*meta.State) feature.Level { return level }}
		err := c.allowed(meta.Empty(), &schema.CreateContainer{})
		if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 3) {
			t.Errorf("level %d: %v", level, err)
		}
		if err := c.allowed(meta.Empty(), &schema.CreateTable{}); err != nil {
			t.Errorf("a table at level %d: %v", level, err)
		}
	}
}
