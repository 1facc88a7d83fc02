// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// ID is that of a cluster or a node, as text in hex.
type ID [16]byte

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("%q is no id", b)
	}
	copy(id[:], raw)
	return nil
}

// Short is how a node is named where people read.
func (id ID) Short() string { return topology.NodeID(id).Short() }

// Survey is what a stopped node has.
type Survey struct {
	Cluster, Node ID
	Birth         uint64
	Level         feature.Level
	Start         incarnation.Start
	// Taken and Dir are for people.
	Taken time.Time
	Dir   string
	// Version and Records are those of the meta partition as they are when all of the node's log is applied; 0 if the
	// node has none yet.
	Version uint64
	Records []Record
	// Replicas are ascending by partition.
	Replicas []Replica
}

// Record is a record of the meta partition.
type Record struct{ Key, Value []byte }

// Replica is a replica of a partition, with the end of its log.
type Replica struct {
	Partition, Replica uint64
	// Meta is the encoded keys.Meta; empty for one that waits for its first snapshot.
	Meta []byte
	// Last and LastTerm are of the last entry of the log, or of the state if the log ends there; Term is the newest
	// that the replica has seen.
	Last, LastTerm, Term uint64
	// Tail are commands after the applied entry that change what the partition is; Changes counts changes of members
	// there.
	Tail    []Command
	Changes int
	// Newest is the highest stamp of a write in the state or the log, in microseconds; 0 if there is none.
	Newest int64

	meta keys.Meta
}

// Command is an encoded command.Entry of the log entry Index, the Place-th of that, from 1.
type Command struct {
	Index, Place uint64
	Data         []byte
}

// longer compares two replicas of a partition by Raft's order of logs: positive if r has the longer one.
func (r *Replica) longer(o *Replica) int {
	return cmp.Or(cmp.Compare(r.LastTerm, o.LastTerm), cmp.Compare(r.Last, o.Last))
}

// of returns the replica of a partition, nil if the node has none.
func (s *Survey) of(partition uint64) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].Partition == partition {
			return &s.Replicas[i]
		}
	}
	return nil
}

// decode reads the metas.
func (s *Survey) decode() error {
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if len(r.Meta) == 0 {
			continue
		}
		var err error
		if r.meta, err = keys.DecodeMeta(r.Meta); err != nil {
			return fmt.Errorf("the survey of node %s: partition %d: %w", s.Node.Short(), r.Partition, err)
		}
	}
	return nil
}

// fingerprint tells whether a directory has changed since it was surveyed, as far as a plan goes by it: the records,
// and the states and logs of the partitions that get new members. That the node was started is no change. It does not
// matter what it has promised to nodes that will not be heard again.
func (s *Survey) fingerprint(forced map[uint64]bool) (string, error) {
	same := Survey{Cluster: s.Cluster, Node: s.Node, Birth: s.Birth, Version: s.Version, Records: s.Records}
	for _, r := range s.Replicas {
		if forced[r.Partition] {
			r.Term = 0
			same.Replicas = append(same.Replicas, r)
		}
	}
	b, err := json.Marshal(&same)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// directory is an open data directory.
type directory struct {
	store *storage.Store
	log   *raftlog.Store
	line  *incarnation.Directory
}

// open opens the directory of a node that does not run. It must be a member of a cluster, and sound.
func open(dir string, readOnly bool) (*directory, error) {
	if id, err := storage.ReadIdentity(vfs.Default, dir); err != nil {
		return nil, err
	} else if id == nil {
		return nil, fmt.Errorf("%s is not a data directory", dir)
	}
	store, err := storage.Open(vfs.Default, dir, storage.Options{ReadOnly: readOnly})
	if err != nil {
		return nil, err
	}
	d := &directory{store: store}
	if err := d.openLog(dir, readOnly); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *directory) openLog(dir string, readOnly bool) (err error) {
	if member, err := membership.IsMember(d.store.Records); err != nil {
		return err
	} else if !member {
		return fmt.Errorf("%s is of no node of a cluster: there is nothing to recover", dir)
	}
	if d.line, err = incarnation.Open(d.store); err != nil {
		return err
	}
	o := raftlog.Options{MustExist: true, ReadOnly: readOnly}
	if d.log, err = raftlog.Open(filepath.Join(dir, membership.LogDir), o); err != nil {
		return fmt.Errorf("open the log of the replica sets: %w", err)
	}
	return nil
}

func (d *directory) close() error {
	var err error
	if d.log != nil {
		err = d.log.Close()
	}
	return errors.Join(err, d.store.Close())
}

// Take surveys the directory of a stopped node. Nothing in it is changed.
func Take(dir string, now time.Time) (*Survey, error) {
	d, err := open(dir, true)
	if err != nil {
		return nil, err
	}
	s, err := d.survey()
	if err = errors.Join(err, d.close()); err != nil {
		return nil, fmt.Errorf("survey %s: %w", dir, err)
	}
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s.Taken = now.UTC().Truncate(time.Second)
	return s, nil
}

// survey reads all of an open directory.
func (d *directory) survey() (*Survey, error) {
	if d.line.RejectReason != "" {
		return nil, errors.New(d.line.RejectReason)
	}
	id := d.store.Identity()
	if err := d.line.Check(membership.Owner(id), d.log); err != nil {
		return nil, fmt.Errorf("the log of the replica sets: %w", err)
	}
	s := &Survey{Cluster: id.Cluster, Node: id.Node, Birth: id.Birth, Level: id.Level, Start: d.line.History.Newest()}
	metas := map[uint64]keys.Meta{}
	err := d.store.Metas(func(m keys.Meta) error {
		metas[m.Partition] = m
		return nil
	})
	if err != nil {
		return nil, err
	}
	registry, err := d.store.Replicas()
	if err != nil {
		return nil, err
	}
	records, err := readRecords(d.store.Records)
	if err != nil {
		return nil, err
	}
	for _, known := range registry {
		r := Replica{Partition: known.Partition, Replica: known.Replica}
		if m, ok := metas[known.Partition]; ok {
			r.meta, r.Meta = m, m.Append(nil)
			if err := d.readLog(&r, records); err != nil {
				return nil, fmt.Errorf("partition %d: %w", r.Partition, err)
			}
		}
		s.Replicas = append(s.Replicas, r)
	}
	s.Version, s.Records = records.version, records.list()
	return s, s.decode()
}
