// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// headBytes is the length of the head of a page (see head).
const headBytes = 2

// Partition implements command.Visitor.
func (p *pageWriter) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if p.canceled.Load() {
		return command.Stop, nil
	}
	p.checkPageSize()
	p.page = appendPartition(p.page, t, key, static)
	p.items++
	return p.sent(false)
}

// Row implements command.Visitor.
func (p *pageWriter) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if p.canceled.Load() {
		return command.Stop, nil
	}
	p.checkPageSize()
	p.page = appendRow(codec.AppendBytes(append(p.page, itemRow), clustering), r)
	p.items++
	p.rows++
	if p.rows == p.last {
		return command.Stop, nil
	}
	return p.sent(p.rows == p.flushAt)
}

// Passed implements command.ProgressVisitor. It sends the page immediately, because the next item may follow much
// later.
func (p *pageWriter) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if p.canceled.Load() {
		return command.Stop, nil
	}
	p.checkPageSize()
	p.page = codec.AppendBytes(binary.BigEndian.AppendUint64(append(p.page, itemPassed), uint64(t)), key)
	p.page = binary.AppendUvarint(p.page, uint64(looked))
	p.items++
	return p.sent(true)
}

// PushedDown implements command.PushdownVisitor.
func (p *pageWriter) PushedDown(f *command.PushdownResult) (command.Step, error) {
	p.page = command.AppendPushdownResult(append(p.page, itemPushedDown), f)
	p.items++
	return command.Stop, nil
}

// Lent implements partition.Borrower. It must be called after all other methods.
func (p *pageWriter) Lent(u ru.Units) {
	if u > 0 {
		p.page = binary.AppendUvarint(append(p.page, itemLent), uint64(u))
	}
}

// sent sends the page if the page is full or if the reader may be waiting for the page.
func (p *pageWriter) sent(now bool) (command.Step, error) {
	if len(p.page) < p.s.page && !now {
		return command.More, nil
	}
	if err := p.to.Page(p.page); err != nil {
		p.lost = err
		return command.Stop, nil
	}
	p.page = p.page[:headBytes]
	return command.More, nil
}
