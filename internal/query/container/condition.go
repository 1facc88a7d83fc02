// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// holds reports whether an item satisfies the condition of a patch ("from c where …").
func (t *Transaction) holds(ctx context.Context, condition, id string, s *stored) (bool, *Error) {
	q, err := t.c.Definition.Schema.Compile(condition, nil)
	if err != nil {
		return false, queryError(err)
	}
	item := document.View(t.c.item(t.keyBytes, id, s).Resource())
	m := t.engine.latched(ctx, latchedSteps)
	defer m.Close()
	ok, err := q.Matches(ctx, item, sql.Run{Now: time.Unix(t.now, 0), Meter: m})
	if err != nil {
		return false, queryError(err)
	}
	return ok, nil
}
