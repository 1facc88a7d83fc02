// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// ErrDone means that the plan has already been applied to the directory.
var ErrDone = errors.New("the plan has already been applied to this directory")

// These are the files that Apply writes to a directory, which contain the previous state and the result.
const (
	beforeFile = "before-recovery.survey"
	doneFile   = "recovered.txt"
)

// unfinishedText returns the rejection text of a directory while a plan is being applied. A node does not start while
// its directory contains this text.
func unfinishedText(digest string) string {
	return "the recovery of this directory is incomplete: run \"ilion recover apply\" again with the same plan (" +
		digest + ")"
}

// Apply applies a plan to the directory of a stopped node. After an interruption, the caller can call Apply again with
// the same plan. It returns ErrDone if the plan has already been applied. It returns an error without changing the
// directory if the plan is rejected. key is the source of the store key if the directory is encrypted.
func Apply(p *Plan, digest, dir string, key encryption.KeySource, now time.Time) (err error) {
	d, err := open(dir, key, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	begun, err := p.check(d, digest)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if !begun {
		if err := p.begin(d, digest, dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	a := applier{Plan: p, directory: d, node: ID(d.store.Identity().Node)}
	for _, step := range []func() error{a.changeLogs, a.changeState, a.rename, func() error {
		return a.recordDone(digest, dir, now)
	}, func() error { return d.line.Reject("") }} {
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w. No data is lost; run the same command again to resume", dir, err)
		}
	}
	return nil
}

// check returns an error if the plan must not be applied to the directory. begun reports whether an application was
// interrupted.
func (p *Plan) check(d *directory, digest string) (begun bool, err error) {
	id := d.store.Identity()
	at := slices.IndexFunc(p.Nodes, func(s Survivor) bool { return s.Node.Node == ID(id.Node) })
	switch refused := d.line.RejectReason; {
	case refused == unfinishedText(digest):
		return true, nil
	case refused != "":
		return false, errors.New(refused)
	case ID(id.Cluster) == p.Next:
		return false, ErrDone
	case ID(id.Cluster) != p.Cluster:
		return false, errors.New("it does not belong to the cluster of the plan")
	case at < 0:
		return false, fmt.Errorf("node %s is not in the plan", ID(id.Node).Short())
	}
	s, err := d.inspect()
	if err != nil {
		return false, err
	}
	sum, err := s.fingerprint(p.forced())
	if err == nil && sum != p.Nodes[at].Survey {
		err = errors.New("it has changed since the inspection, because the node was started: inspect it again, and " +
			"create a new plan")
	}
	return false, err
}

// begin saves the current state, and prevents the node from starting until the plan has been applied.
func (p *Plan) begin(d *directory, digest, dir string) error {
	s, err := d.inspect()
	if err == nil {
		s.Dir = dir
		err = d.saveState(filepath.Join(dir, beforeFile), s)
	}
	if err != nil {
		return err
	}
	return d.line.Reject(unfinishedText(digest))
}

// applier changes one directory. All steps can be repeated.
type applier struct {
	*Plan
	*directory
	node ID
}

// here reports whether this node is a new member of a set.
func (a *applier) here(g *Group) bool {
	on := func(m Member) bool { return m.Node == a.node }
	return g.Forced && (slices.ContainsFunc(g.Votes, on) || slices.ContainsFunc(g.Learns, on))
}

// changeLogs atomically and durably changes the members in the logs.
func (a *applier) changeLogs() error {
	b := a.log.NewBatch()
	for i := range a.Groups {
		g := &a.Groups[i]
		if !a.here(g) {
			continue
		}
		var err error
		if g.Partition == keys.MetaPartition {
			if err = b.Reset(g.Partition, a.Index, a.Term, g.conf()); err == nil {
				err = b.SetHardState(g.Partition, a.Term, 0, a.Index)
			}
		} else {
			err = a.changeLog(b, g)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("cannot change the log of partition %d: %w", g.Partition, err), b.Close())
		}
	}
	return errors.Join(b.Commit(true), b.Close())
}

func (g *Group) conf() *pb.ConfState {
	leave := false
	c := &pb.ConfState{AutoLeave: &leave}
	for _, m := range g.Votes {
		c.Voters = append(c.Voters, m.Replica)
	}
	for _, m := range g.Learns {
		c.Learners = append(c.Learners, m.Replica)
	}
	return c
}

// changeLog changes the log of a replica.
func (a *applier) changeLog(b *raftlog.Batch, g *Group) error {
	m, ok, err := a.store.Meta(g.Partition)
	if err != nil || !ok {
		return err
	}
	log, err := a.log.Group(g.Partition)
	if err != nil || !log.Exists() {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if last < m.Applied { // a snapshot was installed, but the log was not emptied; see inspect
		if err := b.Reset(g.Partition, m.Applied, m.Term, g.conf()); err != nil {
			return err
		}
	} else if err := a.rewriteMembers(b, g, log, last); err != nil {
		return err
	}
	if t := g.Thaw; t != nil && g.Longest == a.node {
		unfreeze := command.Entry{Kind: command.EntryUnfreeze, Epoch: t.Epoch}
		data := raftgroup.EncodeCommands(0, [][]byte{command.AppendEntry(nil, &unfreeze)})
		entry := &pb.Entry{Index: &t.Index, Term: &t.Term, Type: new(pb.EntryNormal), Data: data}
		if err := b.Append(g.Partition, []*pb.Entry{entry}); err != nil {
			return err
		}
	}
	return b.SetConfState(g.Partition, g.conf())
}

// rewriteMembers removes the old members from the entries of a log. It replaces membership changes with no-ops, and
// sets the members of a split's child to the members in the plan. Every survivor makes the same changes to equal
// entries, so equal logs remain equal. The log keeps its length.
func (a *applier) rewriteMembers(b *raftlog.Batch, g *Group, log *raftlog.Group, last uint64) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	var changed []*pb.Entry // starting with the first changed entry
	err = eachEntry(log, first, last, func(e *pb.Entry) error {
		next, err := a.rewritten(g, e)
		if err == nil && (next != e || len(changed) > 0) {
			changed = append(changed, next)
		}
		return err
	})
	if err != nil || len(changed) == 0 {
		return err
	}
	return b.Append(g.Partition, changed)
}

// rewritten returns an entry without old members. It returns e if e contains no old members.
func (a *applier) rewritten(g *Group, e *pb.Entry) (*pb.Entry, error) {
	with := func(data []byte) *pb.Entry {
		return &pb.Entry{Index: new(e.GetIndex()), Term: new(e.GetTerm()), Type: new(pb.EntryNormal), Data: data}
	}
	if e.GetType() != pb.EntryNormal {
		return with(nil), nil
	}
	sequence, commands, err := raftgroup.DecodeCommands(e.GetData())
	if err != nil {
		return nil, err
	}
	same := true
	for i, c := range commands {
		var entry command.Entry
		switch command.KindOfEntry(c) {
		case command.EntrySplit:
			if err := command.DecodeEntry(&entry, c); err != nil {
				return nil, err
			}
			a.rewriteSplit(&entry.Split)
		case command.EntryRequire:
			if err := command.DecodeEntry(&entry, c); err != nil {
				return nil, err
			}
			entry.SchemaVersion = g.schema(entry.SchemaVersion)
		default:
			continue
		}
		commands[i], same = command.AppendEntry(nil, &entry), false
	}
	if same {
		return e, nil
	}
	return with(raftgroup.EncodeCommands(sequence, commands)), nil
}

// rewriteSplit keeps the members of a child that are in the plan. If the plan does not contain the child, rewriteSplit
// keeps the members on survivors.
func (a *applier) rewriteSplit(s *command.Split) {
	stays := func(m keys.Member) bool {
		return slices.ContainsFunc(a.Nodes, func(n Survivor) bool { return n.Node.Node == ID(m.Node) })
	}
	for i := range a.Groups {
		if g := &a.Groups[i]; g.Partition == s.Child && g.Forced {
			stays = func(m keys.Member) bool {
				return slices.ContainsFunc(slices.Concat(g.Votes, g.Learns), func(o Member) bool {
					return o.Replica == m.Replica
				})
			}
		}
	}
	goes := func(m keys.Member) bool { return !stays(m) }
	s.Voters, s.Learners = slices.DeleteFunc(s.Voters, goes), slices.DeleteFunc(s.Learners, goes)
}

// schema returns a table revision that does not exceed the revision in the metadata, because mutations must not require
// a newer revision.
func (g *Group) schema(revision uint64) uint64 {
	if g.Schema == 0 {
		return revision
	}
	return min(revision, g.Schema)
}

// changeState atomically and durably changes the members of the replicas and the records of the meta partition.
func (a *applier) changeState() error {
	b := a.store.NewBatch()
	defer b.Close()
	for i := range a.Groups {
		g := &a.Groups[i]
		if !a.here(g) {
			continue
		}
		m, ok, err := a.store.Meta(g.Partition)
		switch {
		case err != nil:
			return err
		case g.Partition == keys.MetaPartition:
			if !ok {
				m = keys.NewMeta(g.Partition, keys.Span{Table: keys.MetaID})
				m.Region = a.Region
			}
			m.Applied, m.Term = a.Index, a.Term
		case !ok:
			continue // the parent's log will create the replica
		}
		m.SchemaVersion = g.schema(m.SchemaVersion)
		m.Voters, m.Learners = members(g.Votes), members(g.Learns)
		m.VotersOutgoing, m.LearnersNext, m.AutoLeave = nil, nil, false
		b.PutMeta(&m)
		if g.Partition == keys.MetaPartition {
			if err := a.putRecords(b, g); err != nil {
				return err
			}
		}
	}
	return errors.Join(b.CommitLogged(), a.store.Sync())
}

func members(list []Member) (out []keys.Member) {
	for _, m := range list {
		out = append(out, keys.Member{Replica: m.Replica, Node: m.Node})
	}
	return out
}

// batch holds the changes of the state.
type batch interface {
	Set(id uint32, sub, value []byte)
	Delete(id uint32, sub []byte)
	PutReplica(r *keys.Replica)
}

// putRecords replaces the records of the meta partition with the records of the plan.
func (a *applier) putRecords(b batch, g *Group) error {
	old, err := readRecords(a.store.Records)
	if err != nil {
		return err
	}
	for _, r := range a.Records {
		delete(old.values, string(r.Key))
		b.Set(keys.MetaID, r.Key, r.Value)
	}
	for key := range old.values {
		b.Delete(keys.MetaID, []byte(key))
	}
	b.Set(keys.MetaID, []byte(keys.MetadataVersionKey), binary.BigEndian.AppendUint64(nil, a.Version))
	for _, m := range slices.Concat(g.Votes, g.Learns) {
		if m.Node == a.node {
			b.PutReplica(&keys.Replica{Partition: g.Partition, Replica: m.Replica, Created: a.Made.Unix()})
		}
	}
	return nil
}

// rename assigns the directory to the new cluster.
func (a *applier) rename() error {
	id := a.store.Identity()
	was, is := id, id
	was.Cluster, is.Cluster = a.Cluster, a.Next
	if err := incarnation.ChangeOwner(a.log, membership.LogOwner(was), membership.LogOwner(is)); err != nil {
		return fmt.Errorf("cannot change the Raft log: %w", err)
	}
	return a.store.SetIdentity(a.Next, id.Node)
}

// recordDone writes the applied changes to a file in the directory.
func (a *applier) recordDone(digest, dir string, now time.Time) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: recovered by plan %s. The previous state is in %s.\n\n", now.UTC().Format(time.RFC3339),
		digest,
		beforeFile)
	a.Print(&text)
	return writeFile(filepath.Join(dir, doneFile), []byte(text.String()))
}

// writeFile writes a file atomically. Only the owner of the file can read it.
func writeFile(name string, b []byte) error {
	temp := name + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, name)
}
