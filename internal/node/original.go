// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/replica/lineage"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// startAnew is what is left to do with a directory that has forgotten what the node promised.
const startAnew = "take the node out of the cluster (ilion node decommission) and start it on an empty directory with --join"

// openLog opens the log of the replica sets, if it is the one that belongs to the store, and draws a start of the
// directory.
func (c *cluster) openLog() error {
	n := c.n
	var fs vfs.FS = vfs.Default
	dir := filepath.Join(n.opts.Data, logDir)
	if n.opts.Data == "" {
		fs, dir = vfs.NewMem(), filepath.Join(memoryDir, logDir)
	}
	var err error
	if c.directory, err = lineage.Open(n.store); err != nil {
		return fmt.Errorf("read the lineage of the data directory: %w", err)
	}
	if why := c.directory.Refused; why != "" {
		return errors.New(why)
	}
	c.log, err = raftlog.Open(dir, raftlog.Options{
		FS: fs, MustExist: c.directory.Logged(), MemtableBytes: int64(n.opts.Memory.Memtable), NodeCacheBytes: int64(n.opts.Memory.Budget / 16),
		Fatal: func(text string) { n.fail(errors.New(text)) },
	})
	switch {
	case errors.Is(err, raftlog.ErrMissing):
		return fmt.Errorf("the log of the replica sets is missing in %s, and with it what the node has promised to the others. "+
			"Put it back (is a volume not mounted?); if it is lost, %s", dir, startAnew)
	case err != nil:
		return fmt.Errorf("open the log of the replica sets: %w", err)
	}
	n.closers = append(n.closers, c.log.Close)
	id := n.store.Identity()
	owner := binary.BigEndian.AppendUint64(append(id.Cluster[:], id.Node[:]...), id.Birth)
	if err := c.directory.Begin(owner, c.log); err != nil {
		return fmt.Errorf(
			"the log of the replica sets in %s does not go with the data: %w. Put the right one back; if it is lost, %s",
			dir,
			err,
			startAnew,
		)
	}
	return nil
}

// newestStart is the newest start of the data directory; none for a node that stands alone.
func (n *Node) newestStart() lineage.Start {
	if n.cluster == nil {
		return lineage.Start{}
	}
	return n.cluster.directory.Lineage.Newest()
}

// groupsFailed ends the node because its replica sets cannot go on. A log that lost entries is not used again: the next
// start would vote before it found that out.
func (c *cluster) groupsFailed(err error) {
	if errors.Is(err, raftgroup.ErrLostLog) {
		if failed := c.directory.Refuse(err.Error()); failed != nil {
			c.n.log.LogAttrs(c.ctx, slog.LevelError, "refusal not stored", slog.String("error", failed.Error()))
		}
	}
	c.n.fail(err)
}

// admit refuses nodes that have left, and data directories that have not gone on from what the cluster knows of them.
func (c *cluster) admit(p transport.Peer) error {
	var recorded lineage.Start
	if k := c.keeper.Load(); k != nil {
		if err := membership.Refuse(k.State(), p.Node, p.Levels); err != nil {
			return err
		}
		if node := k.State().Node(p.Node); node != nil {
			recorded = lineage.Start{Number: node.Start, Mark: node.Mark}
		}
	}
	l, err := lineage.Decode([]byte(p.Lineage))
	if err != nil {
		return err
	}
	accepted, err := c.witness.Accepts(p.Node, &l, recorded)
	if err != nil {
		return err
	}
	switch {
	case accepted:
	case l.Number <= 1: // a directory that is new, under the identity of an older one
		return copied("another process has this identity: node %s is a member already, with another data directory, and what it "+
			"has promised there binds it. Give the new directory an identity of its own (ilion cert node), and decommission %s "+
			"if its disk is lost", p.Node.Short(), p.Node.Short())
	default:
		return copied(
			"the data directory of node %s is a copy, or was put back to an earlier state: the cluster has seen it started %d times, and not as "+
				"this one. What the node has promised since is not in it. Keep the other one if it is there; if not, %s",
			p.Node.Short(),
			max(recorded.Number, l.Number),
			startAnew,
		)
	}
	return nil
}

// saw remembers the start of a member that was let in, before anything is heard from it.
func (c *cluster) saw(p transport.Peer) {
	l, err := lineage.Decode([]byte(p.Lineage))
	if k := c.keeper.Load(); err == nil && k != nil && k.State().Node(p.Node) != nil {
		err = c.witness.Saw(p.Node, &l)
	}
	if err != nil {
		c.n.fail(err)
	}
}

// watchCopy ends the node when another one knows a later state of its data directory.
func (c *cluster) watchCopy(err error) {
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) && refused.ByPeer && errors.Is(err, transport.ErrCopy) {
		c.n.fail(errors.New(refused.Text))
	}
}

// copied is a transport.ErrCopy with a text of its own.
func copied(format string, args ...any) error { return &copyError{fmt.Sprintf(format, args...)} }

type copyError struct{ text string }

func (e *copyError) Error() string { return e.text }
func (e *copyError) Unwrap() error { return transport.ErrCopy }
