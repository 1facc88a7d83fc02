// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strconv"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/changefeed"
)

// changed returns a change in the form that clients see. This form is the item with its commit stamp as _lsn. If all
// is set, it returns the current version, the previous version, and the kind of the change.
func (c *Container) changed(e *changefeed.Entry, all bool) ([]byte, error) {
	id, err := c.idOf(e.Clustering)
	if err != nil {
		return nil, err
	}
	s := c.read(&e.Row)
	now := c.item(e.Key, id, &s)
	if !all {
		return now.appendResource(make([]byte, 0, len(now.Body)+256), e.Stamp), nil
	}
	kind := e.Changed()
	dst := append(make([]byte, 0, 2*len(now.Body)+512), `{"current":`...)
	if kind == command.Deleted {
		dst = append(dst, "{}"...)
	} else {
		dst = now.AppendResource(dst)
	}
	if before := e.Before(); len(before.Cells) > 0 {
		s := c.read(&before)
		dst = c.item(e.Key, id, &s).AppendResource(append(dst, `,"previous":`...))
	}
	dst = append(append(append(dst, `,"metadata":{"operationType":"`...), kind.String()...), `","lsn":`...)
	dst = append(strconv.AppendInt(dst, e.Stamp, 10), `,"crts":`...)
	dst = strconv.AppendInt(dst, e.Stamp/1_000_000, 10)
	if kind == command.Deleted {
		key, err := epk.ParseKey(e.Key, len(c.Definition.Paths))
		if err != nil {
			return nil, err
		}
		dst = document.AppendString(append(dst, `,"timeToLiveExpired":false,"id":`...), id)
		dst = append(dst, `,"partitionKey":{`...)
		for i := range key {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = document.AppendString(dst, c.Definition.Paths[i][1:])
			dst = key[i].Append(append(dst, ':'))
		}
		dst = append(dst, '}')
	}
	return append(dst, "}}"...), nil
}
