// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// TruncateTable removes all rows of a table whose replicas are all on this host, and all entries of the given indexes, which are the
// table's. It takes as long for a large table as for a small one; all writers of the node wait meanwhile. It completes done or returns an
// error as Replica.Write does.
func (h *Host) TruncateTable(ctx context.Context, replicas []*Replica, indexes []uint32, done command.Completion) error {
	if h.cluster != nil {
		return errSeveral
	}
	if err := h.truncateTable(ctx, replicas, indexes); err != nil {
		return err
	}
	h.committer.join(done)
	return nil
}

func (h *Host) truncateTable(ctx context.Context, replicas []*Replica, indexes []uint32) error {
	for i, r := range replicas {
		if err := r.begin(); err != nil {
			for _, r := range replicas[:i] {
				r.end()
			}
			return err
		}
	}
	defer func() {
		for _, r := range replicas {
			r.end()
		}
	}()
	if err := h.committer.admit(); err != nil {
		return err
	}
	release, err := h.freeze(ctx, nil, wholeStripe)
	if err == nil {
		for _, r := range replicas {
			r.wide.enter()
		}
		err = h.store.Truncate(keys.Span{Table: replicas[0].Table()}, indexes)
		for _, r := range replicas {
			r.wide.leave(h.committer)
		}
		release()
	}
	if err != nil {
		h.committer.cancel()
	}
	return err
}

// freeze keeps all writers of a replica away (wholeOwner), or all of the host (wholeStripe), until release is called.
func (h *Host) freeze(ctx context.Context, r *Replica, sc scope) (release func(), err error) {
	held := make([]guard, 0, stripeCount)
	release = func() {
		for _, g := range held {
			h.latches.leave(g)
		}
	}
	for i := range uint32(stripeCount) {
		g, err := h.latches.acquire(ctx, i, r, nil, sc)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, g)
	}
	return release, nil
}
