// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// feedItemsMax is the default number of items of a feed page.
const feedItemsMax = 1000

// Feed reads one page of all items of a scope. The items of a logical partition are sorted by ID.
func (e *Engine) Feed(ctx context.Context, c *Container, s Scope, continuation string, maxItems int,
	o RequestOptions) (*Page, error) {
	from, bad := c.placeIn(continuation)
	if bad != nil {
		return nil, bad
	}
	x, err := e.newScan(c, &s, from, &o)
	if err != nil {
		return nil, err
	}
	if maxItems <= 0 {
		maxItems = feedItemsMax
	}
	page := &Page{Documents: [][]byte{}}
	size := 0
	for x.more {
		if x.late() && len(page.Documents) > 0 {
			page.Continuation = e.continuationOf(c, x.behind())
			break
		}
		x.max = min(maxItems-len(page.Documents)+1, chunkRowsMax)
		if err := x.piece(ctx, len(page.Documents) > 0, x.until); err != nil {
			if len(page.Documents) > 0 && isSpent(err) {
				page.Continuation = e.continuationOf(c, x.behind())
				break
			}
			return nil, e.failed(err, x)
		}
		for i := range x.rows {
			r := &x.rows[i]
			if len(page.Documents) == maxItems || size > e.opts.PageBytesMax {
				page.Continuation = e.continuationOf(c, &r.place)
				x.more = false
				break
			}
			page.Documents = append(page.Documents, x.item(r).Resource())
			size += len(r.body)
			page.Metrics.RetrievedBytes += int64(len(r.body))
		}
	}
	n := int64(len(page.Documents))
	page.Metrics.RetrievedCount, page.Metrics.OutputCount = n, n
	page.Metrics.OutputBytes = page.Metrics.RetrievedBytes
	page.Where = e.whereOf(c, &s, x)
	return page, nil
}

// failed returns the error of a scan together with the charge of the scan.
func (e *Engine) failed(err error, x *scan) *Error {
	bad := refused(err)
	bad.Charge = x.charge
	return bad
}

// whereOf returns the position of a scan. This is the position of its last item, or the beginning of its scope if it
// has read no item.
func (e *Engine) whereOf(c *Container, s *Scope, x *scan) Where {
	w := Where{Charge: x.charge, Range: s.Range}
	snapshot := e.opts.Coordinator.Topology()
	if w.Range == "" {
		at := topology.Position{Ring: x.q.Range.Begin}
		if x.q.Key != nil {
			at = topology.At(x.q.Token, x.q.Key)
		} else if x.at.key != nil {
			at = topology.Position{Ring: x.at.ring, Key: x.at.key}
		}
		if i := snapshot.Find(c.table.ID, at); i >= 0 {
			p := snapshot.Partitions(c.table.ID)[i]
			w.Range = rangeID(p.ID, p.Epoch)
		}
	}
	w.LSN = e.LSN(w.Range)
	return w
}

// partitionOf finds a physical partition by its client-visible ID.
func (e *Engine) partitionOf(c *Container, id string) (*topology.Partition, error) {
	for _, p := range e.opts.Coordinator.Topology().Partitions(c.table.ID) {
		if rangeID(p.ID, p.Epoch) == id {
			return p, nil
		}
	}
	return nil, Errorf(410, SubRangeGone, "The partition key range %s no longer exists: it was split or merged.", id)
}
