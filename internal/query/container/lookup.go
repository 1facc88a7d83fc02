// SPDX-License-Identifier: Apache-2.0

package container

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// ridLookup is a visitor that searches for the item with a given resource ID.
type ridLookup struct {
	c      *Container
	key    []byte
	rid    string
	id     string
	looked int
	last   []byte
}

// Partition implements command.Visitor.
func (f *ridLookup) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (f *ridLookup) Row(clustering []byte, _ *row.Row) (command.Step, error) {
	id, err := f.c.idOf(clustering)
	if err != nil {
		return command.Stop, err
	}
	if encodeRID(appendItemRID(nil, f.c.rid, f.key, id)) == f.rid {
		f.id = id
		return command.Stop, nil
	}
	f.last = append(f.last[:0], clustering...)
	if f.looked++; f.looked == ridPage {
		return command.Stop, nil
	}
	return command.More, nil
}
