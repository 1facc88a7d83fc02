// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// The bounds of orders about partitions.
const (
	// orderMax bounds the wait for an order to be recorded, and alone for what was ordered.
	orderMax = 10 * time.Second
	// orderWaitMax bounds the wait for a split or a merge to be done. What waits longer goes on by itself.
	orderWaitMax = 45 * time.Second
)

// orderSplit has a physical partition split.
func (n *Node) orderSplit(ctx context.Context, o admin.SplitOrder) (string, error) {
	t, err := n.tableNamed(o.Table)
	if err != nil {
		return "", err
	}
	order := split.Order{Table: t.ID, Partition: topology.PartitionID(o.Partition), Hasty: o.Now,
		Cause: topology.ByHand}
	if n.cluster == nil {
		order.Level = n.store.Level()
	}
	if order.At, err = n.splitPoint(t, &order, o.At); err != nil {
		return "", err
	}
	if o.DryRun {
		if _, err := order.Apply(n.records.State(), time.Now()); err != nil {
			return "", err
		}
		return fmt.Sprintf("partition %d of %s would be split at token %s%s; nothing was done", o.Partition, t,
			order.At, n.sidesOf(&order)), nil
	}
	s, err := n.recordSplit(ctx, &order)
	if err != nil {
		return "", err
	}
	p := s.Map.Partition(order.Partition)
	if p == nil || p.Cut == nil { // it is done already
		return fmt.Sprintf("partition %d of %s is split at token %s", o.Partition, t, order.At), nil
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "split ordered", slog.Uint64("partition", o.Partition),
		slog.String("table", t.String()), slog.String("at", order.At.String()),
		slog.String("cause", order.Cause.String()))
	if n.cluster == nil {
		if err := n.splitAlone(ctx); err != nil {
			return "", err
		}
	} else if !o.Wait {
		return fmt.Sprintf("partition %d of %s is being split at token %s: what begins there becomes partition %d",
			o.Partition, t, order.At, p.Cut.Child), nil
	} else if err := n.awaitSplit(ctx, p); err != nil {
		return "", err
	}
	return fmt.Sprintf("partition %d of %s is split at token %s: what begins there is partition %d", o.Partition, t,
		order.At, p.Cut.Child), nil
}

// tableNamed finds a table of users by its name with the keyspace.
func (n *Node) tableNamed(name string) (*schema.Table, error) {
	ks, table, ok := strings.Cut(name, ".")
	if !ok {
		return nil, fmt.Errorf("%q is no table: give its keyspace, too, as in ks.table", name)
	}
	if schema.IsSystem(ks) {
		return nil, errors.New("tables of the system are left alone: name one of users")
	}
	if k := n.catalog.Snapshot().Keyspaces[ks]; k != nil && k.Tables[table] != nil {
		return k.Tables[table], nil
	}
	return nil, fmt.Errorf("there is no table %s", name)
}

// splitPoint is the position of a token, or the middle of what the partition's replica here holds.
func (n *Node) splitPoint(t *schema.Table, o *split.Order, at string) (topology.Position, error) {
	if at != "" {
		tok, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return topology.Position{}, fmt.Errorf("%q is no token: give a number of -2^63 to 2^63-1", at)
		}
		return topology.Position{Ring: token.Token(tok).Position()}, nil
	}
	p := n.records.State().Map.Partition(o.Partition)
	if p == nil || p.Table != t.ID {
		return topology.Position{}, fmt.Errorf("%s has no partition %d: see ilion partition list", t, o.Partition)
	}
	if r := n.host.Replica(p.ID); r == nil || r.Table() == 0 {
		return topology.Position{}, fmt.Errorf("this node has no replica of partition %d and does not know its middle: "+
			"ask one that has, or give --at TOKEN", p.ID)
	}
	middle, err := n.store.FindSplitPoint(p.Span.Keys(p.Table))
	if err != nil {
		return topology.Position{}, fmt.Errorf("partition %d cannot be split in the middle: %w", p.ID, err)
	}
	return middle.At, nil
}

// sidesOf says how much there would be on both sides of a split, if this node knows.
func (n *Node) sidesOf(o *split.Order) string {
	p := n.records.State().Map.Partition(o.Partition)
	if p == nil || n.host.Replica(o.Partition) == nil {
		return ""
	}
	left, right := p.Span, p.Span
	left.Limit, right.Begin = o.At, o.At
	l, err := n.store.Estimate(left.Keys(p.Table))
	r, err2 := n.store.Estimate(right.Keys(p.Table))
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf(": about %d logical partitions and %d bytes on disk before it, %d and %d after it", l.Partitions,
		l.Bytes, r.Partitions, r.Bytes)
}

// sizeOf is how large a partition is on the disk of this node, in bytes, about; 0 if the store cannot say. It reads no
// rows: requests wait for the end of a merge meanwhile.
func (n *Node) sizeOf(p *topology.Partition) uint64 {
	size, _ := n.store.DiskBytes(p.Span.Keys(p.Table))
	return size
}

// recordSplit puts an order into the records.
func (n *Node) recordSplit(ctx context.Context, o *split.Order) (*meta.State, error) {
	ctx, cancel := context.WithTimeout(ctx, orderMax)
	defer cancel()
	return n.records.Update(ctx, func(s *meta.State) (*meta.State, error) { return o.Apply(s, time.Now()) })
}

// errNotSplit says that an order was taken back before it was carried out.
var errNotSplit = errors.New("the order to split it was taken back")

// awaitSplit returns when the map has a split, or ends in errNotSplit.
func (n *Node) awaitSplit(ctx context.Context, p *topology.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, orderWaitMax)
	defer cancel()
	for {
		s := n.records.State()
		switch now := s.Map.Partition(p.ID); {
		case now == nil:
			return fmt.Errorf("partition %d was dropped with its table", p.ID)
		case now.Epoch == p.Epoch+1 && now.Span.Limit.Compare(p.Span.Limit) == 0:
			return fmt.Errorf("partition %d is as it was: %w", p.ID, errNotSplit)
		case now.Epoch > p.Epoch:
			return nil
		}
		if _, err := n.records.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partition %d is not split yet: the order stands, see ilion partition list: %w", p.ID, err)
		}
	}
}

// splitAlone carries out the splits that the records have as ordered, on a node that stands alone, and ends those
// that were taken back.
func (n *Node) splitAlone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), orderMax)
	defer cancel()
	n.splitting.Lock()
	defer n.splitting.Unlock()
	splitter := &reconcile.Splitter{Keeper: n.records, Size: n.sizeOf,
		Done: func(p *topology.Partition, recalled bool) { reconcile.LogSplit(n.log, p, recalled) }}
	for p := range n.records.State().Map.All() {
		if p.Cut == nil {
			continue
		}
		r := n.host.Replica(p.ID)
		if r == nil {
			return fmt.Errorf("partition %d has no replica here", p.ID)
		}
		if err := splitter.Run(ctx, r, p); err != nil {
			return err
		}
	}
	return nil
}
