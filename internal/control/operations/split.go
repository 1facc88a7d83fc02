// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Split describes the split of a physical partition.
type Split struct {
	// Table is the name of the table with its keyspace, and Partition is the ID of the partition.
	Table     string
	Partition uint64
	// At is the first token of the new partition as a decimal number. If At is empty, the partition is split in the
	// middle of its data.
	At string
	// DryRun requests the plan without its execution. Wait makes the call wait for completion. Now skips the cool-down
	// after a previous split.
	DryRun, Wait, Now bool
}

// Split splits a physical partition.
func (o *Partitions) Split(ctx context.Context, r Split) (string, error) {
	t, err := o.Tables.UserTableNamed(r.Table)
	if err != nil {
		return "", err
	}
	request := split.Request{Table: t.ID, Partition: topology.PartitionID(r.Partition), SkipCooldown: r.Now,
		Cause: topology.ByOperator, Level: o.level()}
	if request.At, err = o.splitPoint(t, &request, r.At); err != nil {
		return "", err
	}
	if r.DryRun {
		if _, err := request.Apply(o.Metadata.State(), time.Now()); err != nil {
			return "", err
		}
		return fmt.Sprintf("partition %d of %s would be split at token %s%s; nothing was done", r.Partition, t,
			request.At, o.splitSizes(&request)), nil
	}
	s, err := o.update(ctx, func(s *meta.State) (*meta.State, error) { return request.Apply(s, time.Now()) })
	if err != nil {
		return "", err
	}
	p := s.Topology.Partition(request.Partition)
	if p == nil || p.Split == nil { // the split has already been completed
		return fmt.Sprintf("partition %d of %s is split at token %s", r.Partition, t, request.At), nil
	}
	o.Log.LogAttrs(ctx, slog.LevelInfo, "split ordered", slog.Uint64("partition", r.Partition),
		slog.String("table", t.String()), slog.String("at", request.At.String()),
		slog.String("cause", request.Cause.String()))
	switch {
	case o.Standalone != nil:
		err = o.Standalone.ApplySplits(ctx)
	case !r.Wait:
		return fmt.Sprintf("partition %d of %s is being split at token %s; the upper part becomes partition %d",
			r.Partition, t, request.At, p.Split.Child), nil
	default:
		err = o.awaitSplit(ctx, p)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("partition %d of %s has been split at token %s; the upper part is partition %d", r.Partition, t,
		request.At, p.Split.Child), nil
}

// splitPoint returns the position of a token, or the middle of the data in the local replica.
func (o *Partitions) splitPoint(t *schema.Table, r *split.Request, at string) (topology.Position, error) {
	if at != "" {
		tok, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return topology.Position{}, fmt.Errorf("invalid token %q: expected an integer from -2^63 to 2^63-1", at)
		}
		return topology.Position{Ring: token.Token(tok).Position()}, nil
	}
	p := o.Metadata.State().Topology.Partition(r.Partition)
	if p == nil || p.Table != t.ID {
		return topology.Position{},
			fmt.Errorf("%s has no partition %d. Run \"ilion partition list\" to list its partitions", t, r.Partition)
	}
	if replica := o.Host.Replica(p.ID); replica == nil || replica.Table() == 0 {
		return topology.Position{},
			fmt.Errorf("this node has no replica of partition %d and cannot compute its middle: "+
				"ask one that has, or give --at TOKEN", p.ID)
	}
	middle, err := o.Store.FindSplitPoint(p.Span.Keys(p.Table))
	if err != nil {
		return topology.Position{}, fmt.Errorf("partition %d cannot be split in the middle: %w", p.ID, err)
	}
	return middle.At, nil
}

// splitSizes describes the sizes of both sides of a split.
func (o *Partitions) splitSizes(r *split.Request) string {
	p := o.Metadata.State().Topology.Partition(r.Partition)
	if p == nil || o.Host.Replica(r.Partition) == nil {
		return ""
	}
	left, right := p.Span, p.Span
	left.Limit, right.Begin = r.At, r.At
	before, err := o.Store.Estimate(left.Keys(p.Table))
	after, err2 := o.Store.Estimate(right.Keys(p.Table))
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf(": about %d logical partitions and %d bytes on disk before it, %d and %d after it",
		before.Partitions, before.Bytes, after.Partitions, after.Bytes)
}

// errSplitCanceled means that a split was canceled before it was executed.
var errSplitCanceled = errors.New("the split was canceled")

// awaitSplit waits until a split has been completed. It returns errSplitCanceled if the split has been canceled.
func (o *Partitions) awaitSplit(ctx context.Context, p *topology.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	for {
		s := o.Metadata.State()
		switch now := s.Topology.Partition(p.ID); {
		case now == nil:
			return fmt.Errorf("partition %d was dropped with its table", p.ID)
		case now.Epoch == p.Epoch+1 && now.Span.Limit.Compare(p.Span.Limit) == 0:
			return fmt.Errorf("partition %d is unchanged: %w", p.ID, errSplitCanceled)
		case now.Epoch > p.Epoch:
			return nil
		}
		if _, err := o.Metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partition %d is still being split. Run \"ilion partition list\" to see the progress: %w",
				p.ID, err)
		}
	}
}
