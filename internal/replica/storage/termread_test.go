// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestContextAmongTerms checks that a read of rows with two given values ends with its context, even if it never visits
// a row. Rows alternately have one of the values, and no row has both.
func TestContextAmongTerms(t *testing.T) {
	s := openMem(t, Options{})
	const index = testIndex | keys.OrderedIndex
	for i := range 2 * contextEvery {
		m := insert("k", fmt.Sprintf("%04d", i), 1)
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: index, Value: []byte{byte(i % 2)},
			Clustering: m.Ops[0].Clustering})
		apply(t, s, m)
	}
	r := command.Read{Table: testTable, Range: token.Full, Index: &command.IndexLookup{Index: index,
		All: []command.IndexTerm{{Index: index, Value: []byte{0}}, {Index: index, Value: []byte{1}}}}}
	var v silent
	if err := s.Read(context.Background(), &r, &v); err != nil || v.rows > 0 {
		t.Fatalf("%d rows, %v", v.rows, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Read(ctx, &r, &v); !errors.Is(err, context.Canceled) {
		t.Errorf("read with an ended context: got %v", err)
	}
}
