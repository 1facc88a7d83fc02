// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/token"
)

// cursor holds the progress of a scan and the position at which to resume it.
type cursor struct {
	// from is the position at which the page begins if resumed is set.
	from    position
	resumed bool
	// at is the position at which to resume if the page is full or the read has paused. It refers to the memory of
	// clustering and of the current partition's key.
	at         position
	clustering []byte
	// visits is the number of rows visited by the command. visitedOnPage is the number of rows visited for the page.
	// commands is the number of commands sent.
	visits, visitedOnPage, commands int
	// paused reports whether the command has visited the maximum number of rows.
	paused bool
}

// reset moves the cursor to the beginning and keeps its buffer.
func (c *cursor) reset() { *c = cursor{clustering: c.clustering[:0]} }

// visit counts n visited rows. visit reports whether the command must pause because it has visited max rows.
func (c *cursor) visit(n, max int) bool {
	c.visits += n
	c.visitedOnPage += n
	return c.visits >= max
}

// mark sets the position at which the scan resumes: after a row of a partition, or after the whole partition. remaining
// is the number of rows left by LIMIT.
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
	// open reports whether the partition has begun and not ended. rowsSeen reports whether the partition has rows.
	open, rowsSeen bool
	// continuing reports whether the next command continues within the partition.
	continuing bool
	// left is the number of rows left by PER PARTITION LIMIT.
	left int64
}

// reset restores the state before the first partition and keeps its buffer.
func (p *currentPartition) reset() { *p = currentPartition{key: p.key[:0]} }

// continues reports whether a partition that a command returns is the continuation of the current partition.
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

// limits holds the numbers of rows that a scan may still return, or unlimited.
type limits struct {
	// remaining is the number of rows left by LIMIT. page is the number of rows left on the page. perPartition is the
	// maximum number of rows of each partition.
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

// keyIn returns a copy of a partition key in buf's memory. The copy is never nil, because a view may have an empty key
// and nil means null.
func keyIn(buf, key []byte) []byte {
	if buf = append(buf[:0], key...); buf == nil {
		return []byte{}
	}
	return buf
}
