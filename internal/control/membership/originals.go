// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// startAnew is the one way out for a directory that has forgotten promises of its node.
const startAnew = "take the node out of the cluster (ilion node decommission) and start it on an empty directory with --join"

// LogDir is the folder of a data directory in which the logs of its replica sets are.
const LogDir = "raft"

// Owner names a data directory to the log that belongs to it.
func Owner(id storage.Identity) []byte {
	return binary.BigEndian.AppendUint64(append(id.Cluster[:], id.Node[:]...), id.Birth)
}

// OpenLog opens the log of the replica sets in dir, a folder of the data directory, if it is the one that belongs to
// the store, and draws a start of the data directory. It never makes a log anew where there was one (N2).
func OpenLog(store *storage.Store, dir string, o raftlog.Options) (*raftlog.Store, *incarnation.Directory, error) {
	directory, err := incarnation.Open(store)
	if err != nil {
		return nil, nil, fmt.Errorf("read the lineage of the data directory: %w", err)
	}
	if why := directory.RejectReason; why != "" {
		return nil, nil, fmt.Errorf("%s: %s", filepath.Dir(dir), why)
	}
	o.MustExist = directory.HasLog()
	log, err := raftlog.Open(dir, o)
	switch {
	case errors.Is(err, raftlog.ErrMissing):
		return nil, nil, fmt.Errorf("the log of the replica sets is missing in %s, and with it what the node has promised to the "+
			"others. Put it back (is a volume not mounted?); if it is lost, %s", dir, startAnew)
	case err != nil:
		return nil, nil, fmt.Errorf("open the log of the replica sets: %w", err)
	}
	if err := directory.Begin(Owner(store.Identity()), log); err != nil {
		err = fmt.Errorf("the log of the replica sets in %s does not go with the data: %w. Put the right one back; "+
			"if it is lost, %s", dir, err, startAnew)
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, directory, nil
}

// Originals keeps copies and earlier states of data directories out of the cluster (N2): those of other nodes when
// they connect, and this node's own when others, or its log, know better. Its fields are set before it is used.
type Originals struct {
	// Dir is the name of the data directory.
	Dir       string
	Directory *incarnation.Directory
	Witness   *incarnation.PeerHistory
	// Records returns the records, nil before this node has read them.
	Records func() *meta.State
	Log     *slog.Logger
	// Fail ends the node.
	Fail func(error)
}

// Admit refuses nodes that have left, and data directories that have not gone on from what is known of them.
func (o *Originals) Admit(p transport.Peer) error {
	var recorded incarnation.Start
	if s := o.Records(); s != nil {
		if err := Refuse(s, p.Node, p.Levels); err != nil {
			return err
		}
		if node := s.Node(p.Node); node != nil {
			recorded = incarnation.Start{Number: node.Start, Mark: node.Mark}
		}
	}
	l, err := incarnation.Decode([]byte(p.History))
	if err != nil {
		return err
	}
	accepted, err := o.Witness.Accepts(p.Node, &l, recorded)
	switch {
	case err != nil:
		return err
	case accepted:
		return nil
	case l.Number <= 1: // a directory that is new, under the identity of an older one
		return copied("another process has this identity: node %s is a member already, with another data directory, and what it "+
			"has promised there binds it. Give the new directory an identity of its own (ilion cert node), and decommission %s "+
			"if its disk is lost", p.Node.Short(), p.Node.Short())
	}
	return copied("the data directory of node %s is a copy, or was restored to an earlier state: the cluster has seen it "+
		"started %d times, and not as this one. What the node has promised since is not in it. Keep the other one if it is "+
		"there; if not, %s", p.Node.Short(), max(recorded.Number, l.Number), startAnew)
}

// FormerSetting is the name of the setting that says when a cluster was recovered, from what it was before, which had
// this identity.
func FormerSetting(cluster [16]byte) string { return "recovered/" + hex.EncodeToString(cluster[:]) }

// Former says what a node is told that comes as one of the cluster which this one was before it was recovered; "" if
// this one never was that.
func (o *Originals) Former(cluster transport.ClusterID, node topology.NodeID) string {
	s := o.Records()
	if s == nil {
		return ""
	}
	at := s.Settings[FormerSetting(cluster)]
	switch n := s.Node(node); {
	case at == "":
		return ""
	case n != nil && n.State != meta.Left:
		return fmt.Sprintf("the cluster was recovered (plan of %s), and the data directory of node %s was left out: carry the plan "+
			"out there (ilion recover apply)", at, node.Short())
	}
	return fmt.Sprintf("node %s was given up when the cluster was recovered (plan of %s): what is in its data directory is of "+
		"no cluster any more. Start it on an empty directory with --join", node.Short(), at)
}

// Saw remembers the start of a member that was let in, before anything is heard from it.
func (o *Originals) Saw(p transport.Peer) {
	l, err := incarnation.Decode([]byte(p.History))
	if s := o.Records(); err == nil && s != nil && s.Node(p.Node) != nil {
		err = o.Witness.Record(p.Node, &l)
	}
	if err != nil {
		o.Fail(err)
	}
}

// NotReached ends the node when another one that refused it knows a later state of its data directory.
func (o *Originals) NotReached(err error) {
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) && refused.ByPeer &&
		errors.Is(err, transport.ErrCopiedDirectory) {
		o.Fail(errors.New(refused.Text))
	}
}

// NotOpened is the error of a start whose replica sets could not be opened: a log that lost entries is named.
func (o *Originals) NotOpened(err error) error {
	if errors.Is(err, raftgroup.ErrLostLog) {
		return fmt.Errorf("%s: %w. Put the right one back; if it is lost, %s", o.Dir, err, startAnew)
	}
	return err
}

// GroupsFailed ends the node because its replica sets cannot go on. A log that lost entries is not used again: the
// next start would vote before it found that out.
func (o *Originals) GroupsFailed(err error) {
	if errors.Is(err, raftgroup.ErrLostLog) {
		if failed := o.Directory.Reject(err.Error()); failed != nil {
			o.Log.LogAttrs(context.Background(), slog.LevelError, "refusal not stored",
				slog.String("error", failed.Error()))
		}
		err = fmt.Errorf("%s: %w", o.Dir, err)
	}
	o.Fail(err)
}

// copied is a transport.ErrCopiedDirectory with a text of its own.
func copied(format string, args ...any) error { return &copyError{fmt.Sprintf(format, args...)} }

type copyError struct{ text string }

func (e *copyError) Error() string { return e.text }
func (e *copyError) Unwrap() error { return transport.ErrCopiedDirectory }
