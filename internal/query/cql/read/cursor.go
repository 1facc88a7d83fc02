// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/token"
)

// cursor holds the progress of a scan and the position at which to resume it.
type cursor struct {
	// If resumed is set, the page begins at from.
	from    position
	resumed bool
	// at is the position at which the scan can resume. at refers to the memory of clustering and the current partition
	// key.
	at         position
	clustering []byte
	// visits is the number of rows that the current command has visited. visitedOnPage is the number of rows that have
	// been visited for the page. commands is the number of commands that have been sent.
	visits, visitedOnPage, commands int
	// paused reports whether the command has visited the maximum number of rows for a command.
	paused bool
}

func (c *cursor) reset() { *c = cursor{clustering: c.clustering[:0]} }

// visit counts n visited rows. It reports whether the command has visited max rows and must pause.
func (c *cursor) visit(n, max int) bool {
	c.visits += n
	c.visitedOnPage += n
	return c.visits >= max
}

// mark sets the position at which the scan can resume. If afterPartition is true, the position is after the whole
// partition. Otherwise, the position is after a row. remaining is the remaining number of rows for LIMIT.
func (c *cursor) mark(p *currentPartition, clustering []byte, afterPartition bool, remaining int64) {
	c.clustering = append(c.clustering[:0], clustering...)
	c.at = position{
		key: p.key, token: p.token, clustering: c.clustering, afterPartition: afterPartition,
		remaining: remaining, inPartition: p.left,
	}
}

// currentPartition is the state of the logical partition that is being read.
type currentPartition struct {
	key   []byte
	token token.Token
	// open is true between the start and the end of the partition. rowsSeen reports whether the partition has rows.
	open, rowsSeen bool
	// continuing reports whether the next command continues within the partition.
	continuing bool
	// left is the remaining number of rows for PER PARTITION LIMIT.
	left int64
}

func (p *currentPartition) reset() { *p = currentPartition{key: p.key[:0]} }

// continues reports whether a returned partition continues the current partition.
func (p *currentPartition) continues(key []byte) bool {
	same := p.continuing && bytes.Equal(key, p.key)
	p.continuing = false
	return same
}

// moveTo sets the key and its token.
func (p *currentPartition) moveTo(tok token.Token, key []byte) {
	p.key, p.token = keyIn(p.key, key), tok
}

// resume restores the state at a position within the partition.
func (p *currentPartition) resume(at *position) {
	if !p.open {
		p.moveTo(at.token, at.key)
		p.left = at.inPartition
	}
	p.open, p.rowsSeen, p.continuing = true, true, true
}

type limits struct {
	// remaining is the remaining number of rows for LIMIT. page is the remaining number of rows for the page.
	// perPartition is the maximum number of rows per partition. A number may be unlimited.
	remaining, page, perPartition int64
}

// count counts a row of the result.
func (l *limits) count(p *currentPartition) {
	l.page--
	if l.remaining != unlimited {
		l.remaining--
	}
	if p.left != unlimited {
		p.left--
	}
}

// keyIn returns a copy of a partition key in the memory of buf. The copy is never nil, because a view may have an empty
// partition key and nil represents null.
func keyIn(buf, key []byte) []byte {
	if buf = append(buf[:0], key...); buf == nil {
		return []byte{}
	}
	return buf
}
