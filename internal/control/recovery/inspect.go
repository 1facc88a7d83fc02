// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"context"
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
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// ID is the ID of a cluster or a node. Its text form is hexadecimal.
type ID [16]byte

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("%q is not an ID", b)
	}
	copy(id[:], raw)
	return nil
}

// Short returns the short form of a node ID for messages.
func (id ID) Short() string { return topology.NodeID(id).Short() }

// NodeState is the state of a stopped node.
type NodeState struct {
	Cluster, Node ID
	CreationID    uint64 `json:"Birth"`
	Level         feature.Level
	Start         incarnation.Start
	// Taken and Dir are used only for display.
	Taken time.Time
	Dir   string
	// Version and Records are the metadata after the application of all entries in the node's log. Version is 0 if the
	// node has no metadata yet.
	Version uint64
	Records []Record
	// Replicas are in ascending order of partitions.
	Replicas []Replica
}

// Record is a record of the meta partition.
type Record struct{ Key, Value []byte }

// Replica is a replica of a partition with the end of its log.
type Replica struct {
	Partition, Replica uint64
	// Meta is the encoded keys.Meta. It is empty for a replica that waits for its first snapshot.
	Meta []byte
	// Last and LastTerm are the index and the term of the last entry in the log, or of the state if the log is empty.
	// Term is the newest term that the replica has seen.
	Last, LastTerm, Term uint64
	// Tail holds the unapplied commands that change the partition itself. Changes is the number of unapplied membership
	// changes.
	Tail    []Command
	Changes int
	// Newest is the highest timestamp of a write in the state or the log, in microseconds, or 0.
	Newest int64

	meta keys.Meta
}

// Command is an encoded command.Entry. It is the command with the number Place, counted from 1, in the log entry at
// Index.
type Command struct {
	Index, Place uint64
	Data         []byte
}

// longer compares the logs of two replicas in Raft's order. The result is positive if r has the longer log.
func (r *Replica) longer(o *Replica) int {
	return cmp.Or(cmp.Compare(r.LastTerm, o.LastTerm), cmp.Compare(r.Last, o.Last))
}

// of returns the replica of a partition, or nil.
func (s *NodeState) of(partition uint64) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].Partition == partition {
			return &s.Replicas[i]
		}
	}
	return nil
}

// decode decodes the metadata of the replicas.
func (s *NodeState) decode() error {
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if len(r.Meta) == 0 {
			continue
		}
		var err error
		if r.meta, err = keys.DecodeMeta(r.Meta); err != nil {
			return fmt.Errorf("invalid state of node %s: partition %d: %w", s.Node.Short(), r.Partition, err)
		}
	}
	return nil
}

// fingerprint returns a digest of the metadata and of the states and logs of the partitions that get new members. The
// digest does not change if the node is started or votes for lost nodes.
func (s *NodeState) fingerprint(forced map[uint64]bool) (string, error) {
	same := NodeState{Cluster: s.Cluster, Node: s.Node, CreationID: s.CreationID, Version: s.Version,
		Records: s.Records}
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
	fs    vfs.FS
	keys  *encryption.Keys // nil if the directory is not encrypted
	store *storage.Store
	log   *raftlog.Store
	line  *incarnation.Directory
}

// open opens the intact directory of a stopped cluster node.
func open(dir string, key encryption.KeySource, readOnly bool) (*directory, error) {
	if id, err := storage.ReadIdentity(vfs.Default, dir); err != nil {
		return nil, err
	} else if id == nil {
		return nil, fmt.Errorf("%s is not a data directory", dir)
	}
	d := &directory{fs: vfs.Default}
	var err error
	d.keys, err = encryption.Open(context.Background(), d.fs, encryption.Options{Key: key,
		Dirs: []string{dir, filepath.Join(dir, membership.LogDir)}, KeepPlain: true})
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, err)
	}
	if d.keys != nil {
		d.fs = d.keys.FS()
	}
	if d.store, err = storage.Open(d.fs, dir, storage.Options{ReadOnly: readOnly}); err != nil {
		return nil, err
	}
	if err := d.openLog(dir, readOnly); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *directory) openLog(dir string, readOnly bool) (err error) {
	if member, err := membership.IsMember(d.store.Records); err != nil {
		return err
	} else if !member {
		return fmt.Errorf("%s does not belong to a cluster node: nothing to recover", dir)
	}
	if d.line, err = incarnation.Open(d.store); err != nil {
		return err
	}
	o := raftlog.Options{FS: d.fs, MustExist: true, ReadOnly: readOnly}
	if d.log, err = raftlog.Open(filepath.Join(dir, membership.LogDir), o); err != nil {
		return fmt.Errorf("cannot open the Raft log: %w", err)
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

// Inspect reads the state of a stopped node from its directory without changing the directory. key is the source of the
// store key if the directory is encrypted.
func Inspect(dir string, key encryption.KeySource, now time.Time) (*NodeState, error) {
	d, err := open(dir, key, true)
	if err != nil {
		return nil, err
	}
	s, err := d.inspect()
	if err = errors.Join(err, d.close()); err != nil {
		return nil, fmt.Errorf("cannot inspect %s: %w", dir, err)
	}
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s.Taken = now.UTC().Truncate(time.Second)
	return s, nil
}

// inspect reads the state from an open directory.
func (d *directory) inspect() (*NodeState, error) {
	if d.line.RejectReason != "" {
		return nil, errors.New(d.line.RejectReason)
	}
	id := d.store.Identity()
	if err := d.line.Check(membership.LogOwner(id), d.log); err != nil {
		return nil, fmt.Errorf("cannot read the Raft log: %w", err)
	}
	s := &NodeState{Cluster: id.Cluster, Node: id.Node, CreationID: id.CreationID, Level: id.Level,
		Start: d.line.History.Newest()}
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
