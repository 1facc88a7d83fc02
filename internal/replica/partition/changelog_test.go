// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// TestImagesAreBounded proves that the images of one mutation are kept as long as they have no more than imagesMax
// bytes, and that what is above is a change without images.
func TestImagesAreBounded(t *testing.T) {
	image := storage.Image{Clustering: []byte("c"), After: row.Row{Cells: []row.Cell{{Column: 1,
		Value: bytes.Repeat([]byte("x"), imagesMax/2), Timestamp: 5, Expiry: row.NoExpiry}}}}
	x := changeWriter{log: &command.ChangeLog{Keep: 60}, now: 100}
	for range 2 {
		x.row(&image)
	}
	if len(x.ops) != 2 || len(x.ops[0].Operand) < imagesMax/2 || len(x.ops[1].Operand) > 100 {
		t.Fatalf("%d entries of %d and %d bytes", len(x.ops), len(x.ops[0].Operand), len(x.ops[1].Operand))
	}
	row.Stamp(x.ops[1].Operand, 7)
	var kept row.Row
	if _, err := kept.Resolve(x.ops[1].Operand, row.NotDeleted, 100, nil); err != nil ||
		kept.Cell(command.ChangeKind) == nil || kept.Cell(command.ChangeRowAfter) != nil {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, due, err := row.Check(x.ops[0].Operand); err != nil || due != 100+60+command.ChangeGrace {
		t.Errorf("it expires at %d, %v", due, err)
	}
}
