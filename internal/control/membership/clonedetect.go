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

// replaceNodeHint describes how to replace a node whose directory has lost Raft votes.
const replaceNodeHint = "remove the node from the cluster (ilion node decommission) and start it on an empty " +
	"directory with --join"

// LogDir is the subdirectory of a data directory that contains the Raft logs.
const LogDir = "raft"

// LogOwner returns the name of the data directory to which a log belongs.
func LogOwner(id storage.Identity) []byte {
	return binary.BigEndian.AppendUint64(append(id.Cluster[:], id.Node[:]...), id.CreationID)
}

// OpenLog opens the Raft log in dir, a subdirectory of the data directory, if the log belongs to the store. It also
// starts a new incarnation of the data directory. It never replaces a missing log (N2).
func OpenLog(store *storage.Store, dir string, o raftlog.Options) (*raftlog.Store, *incarnation.Directory, error) {
	directory, err := incarnation.Open(store)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the start history of the data directory: %w", err)
	}
	if why := directory.RejectReason; why != "" {
		return nil, nil, fmt.Errorf("%s: %s", filepath.Dir(dir), why)
	}
	o.MustExist = directory.HasLog()
	log, err := raftlog.Open(dir, o)
	switch {
	case errors.Is(err, raftlog.ErrMissing):
		return nil, nil, fmt.Errorf("the Raft log, which contains the node's votes, is missing from %s. "+
			"Check that all volumes are mounted, or restore it. If it is lost, %s", dir, replaceNodeHint)
	case err != nil:
		return nil, nil, fmt.Errorf("cannot open the Raft log: %w", err)
	}
	if err := directory.Begin(LogOwner(store.Identity()), log); err != nil {
		err = fmt.Errorf("the Raft log in %s does not match the data: %w. Restore the matching log. "+
			"If it is lost, %s", dir, err, replaceNodeHint)
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, directory, nil
}

// DirectoryGuard keeps cloned and rolled-back data directories out of the cluster (N2). It rejects nodes with such
// directories when they connect. It stops this node if another node or the local log contains a later state of this
// node's directory. The caller must set the exported fields before use.
type DirectoryGuard struct {
	// Dir is the name of the data directory.
	Dir       string
	Directory *incarnation.Directory
	Witness   *incarnation.PeerHistory
	Node      Node
	Log       *slog.Logger
}

// Admit rejects nodes that have left the cluster and data directories that do not continue their known state.
func (o *DirectoryGuard) Admit(p transport.Peer) error {
	var recorded incarnation.Start
	if s := o.Node.State(); s != nil {
		if err := CheckCompatible(s, p.Node, p.Levels); err != nil {
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
	case l.Number <= 1: // a new directory with the identity of an older directory
		return copyErrorf("another process has this identity: node %s is already a member, with another data "+
			"directory that contains "+
			"its Raft votes. Give the new directory its own identity (ilion cert node), and decommission %s if its "+
			"disk is lost",
			p.Node.Short(), p.Node.Short())
	}
	return copyErrorf("the data directory of node %s is a copy, or was restored to an earlier state: the cluster "+
		"has recorded "+
		"%d starts, with a different history. Raft votes that the node has cast since are missing. Keep the other "+
		"directory if it exists; otherwise, %s", p.Node.Short(), max(recorded.Number, l.Number), replaceNodeHint)
}

// FormerClusterSetting returns the name of the setting that contains the time at which the cluster with the given ID
// was recovered as this cluster.
func FormerClusterSetting(cluster [16]byte) string {
	return "recovered/" + hex.EncodeToString(cluster[:])
}

// FormerCluster returns the message for a node that connects as a member of a cluster that was recovered as this
// cluster. It returns an empty string if the cluster ID is unknown.
func (o *DirectoryGuard) FormerCluster(cluster transport.ClusterID, node topology.NodeID) string {
	s := o.Node.State()
	if s == nil {
		return ""
	}
	at := s.Settings[FormerClusterSetting(cluster)]
	switch n := s.Node(node); {
	case at == "":
		return ""
	case n != nil && n.State != meta.Left:
		return fmt.Sprintf("the cluster was recovered (plan of %s), and the plan was not applied to the data "+
			"directory of node %s: "+
			"apply it there (ilion recover apply)", at, node.Short())
	}
	return fmt.Sprintf("node %s was abandoned when the cluster was recovered (plan of %s): its data directory no "+
		"longer belongs to "+
		"a cluster. Start it on an empty directory with --join", node.Short(), at)
}

// RecordStart records the start of an admitted member. It must be called before messages of the member are processed.
func (o *DirectoryGuard) RecordStart(p transport.Peer) {
	l, err := incarnation.Decode([]byte(p.History))
	if s := o.Node.State(); err == nil && s != nil && s.Node(p.Node) != nil {
		err = o.Witness.Record(p.Node, &l)
	}
	if err != nil {
		o.Node.Fail(err)
	}
}

// HandleUnreachable stops this node if another node has rejected this node because of a later state of the data
// directory.
func (o *DirectoryGuard) HandleUnreachable(err error) {
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) && refused.ByPeer &&
		errors.Is(err, transport.ErrCopiedDirectory) {
		o.Node.Fail(errors.New(refused.Text))
	}
}

// ExplainOpenError adds the name of the log to an error if replica sets cannot be opened because the log has lost
// entries.
func (o *DirectoryGuard) ExplainOpenError(err error) error {
	if errors.Is(err, raftgroup.ErrLostLog) {
		return fmt.Errorf("%s: %w. Restore the matching directory. If it is lost, %s", o.Dir, err, replaceNodeHint)
	}
	return err
}

// HandleGroupFailure stops the node because its replica sets have failed. If the log has lost entries,
// HandleGroupFailure marks the log as unusable, because the node could otherwise vote after the next start before it
// detects the loss.
func (o *DirectoryGuard) HandleGroupFailure(err error) {
	if errors.Is(err, raftgroup.ErrLostLog) {
		if failed := o.Directory.Reject(err.Error()); failed != nil {
			o.Log.LogAttrs(context.Background(), slog.LevelError, "cannot mark the log as unusable",
				slog.String("error", failed.Error()))
		}
		err = fmt.Errorf("%s: %w", o.Dir, err)
	}
	o.Node.Fail(err)
}

// copyErrorf returns an error with the given text that wraps transport.ErrCopiedDirectory.
func copyErrorf(format string, args ...any) error { return &copyError{fmt.Sprintf(format, args...)} }

type copyError struct{ text string }

func (e *copyError) Error() string { return e.text }
func (e *copyError) Unwrap() error { return transport.ErrCopiedDirectory }
