// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// Format is the version of manifests. A reader rejects newer versions.
const Format = 1

const manifestMagic = "ilion-backup "

// Manifest describes the content of a backup. A backup without a manifest is incomplete.
type Manifest struct {
	// ID is the name of the backup. It is the start time of the backup.
	ID string `json:"id"`
	// Time is the time of the backup's snapshot, according to the clock of the node that received the request.
	// Completed is the time at which the backup was complete.
	Time      time.Time `json:"moment"`
	Completed time.Time `json:"ended"`
	// Cluster is the ID of the cluster. For a standalone node, it is the ID of the node. Software is the build that
	// wrote the backup.
	Cluster  string `json:"cluster"`
	Software string `json:"software"`
	// Archived means that the snapshot is also a restore point of the archive that is stored with the backups. The
	// archive starts or continues at this point.
	Archived bool `json:"followed,omitempty"`
	// Metadata is the file with the cluster metadata, which consists of schema, topology, nodes, roles, and settings.
	Metadata File `json:"records"`
	// Tables is sorted by name.
	Tables []Table `json:"tables"`
}

// Table is a table of a backup, with its original ID.
type Table struct {
	Keyspace   string      `json:"keyspace"`
	Name       string      `json:"name"`
	ID         uint32      `json:"id"`
	Partitions []Partition `json:"partitions"`
}

// Partition is the state of a physical partition in the snapshot.
type Partition struct {
	ID uint64 `json:"id"`
	// Begin and End bound the partition's positions (see keys.Span). An empty End is the end of the ring. Epoch, Term,
	// and Applied identify a state of the partition. Two backups with equal values contain the same data.
	Begin   []byte `json:"begin,omitempty"`
	End     []byte `json:"end,omitempty"`
	Epoch   uint64 `json:"epoch"`
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
	// Node is the node that holds the snapshot while the backup runs.
	Node  string `json:"node,omitempty"`
	Table uint32 `json:"table,omitempty"`
	// Files holds the records in ascending order.
	Files []File `json:"files"`
}

// Unchanged reports whether no write can have occurred between two states of the same partition of the same cluster.
func (p *Partition) Unchanged(o *Partition) bool {
	return p.ID == o.ID && p.Epoch == o.Epoch && p.Term == o.Term && p.Applied == o.Applied &&
		bytes.Equal(p.Begin, o.Begin) && bytes.Equal(p.End, o.End)
}

// File describes a file of a backup. It holds the name of the file, the number of records, and their uncompressed
// size. First is the key of the first record, without the table ID.
type File struct {
	Name    string `json:"name"`
	Records int    `json:"records"`
	Bytes   int64  `json:"bytes"`
	First   []byte `json:"first,omitempty"`
}

// Files calls fn for every reference to a file. A file that is referenced twice is passed twice.
func (m *Manifest) Files(fn func(f File)) {
	fn(m.Metadata)
	for _, t := range m.Tables {
		for _, p := range t.Partitions {
			for _, f := range p.Files {
				fn(f)
			}
		}
	}
}

// Encode returns the manifest in its stored form.
func (m *Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return append(fmt.Appendf(nil, "%s%d %s\n", manifestMagic, Format, hex.EncodeToString(sum[:])), text...), nil
}

// Decode reads the output of Encode. On failure, Decode returns ErrDamaged or a *feature.Newer.
func Decode(data []byte) (*Manifest, error) {
	head, text, ok := bytes.Cut(data, []byte("\n"))
	var format uint64
	var sum string
	if ok = ok && strings.HasPrefix(string(head), manifestMagic); ok {
		_, err := fmt.Sscanf(string(head[len(manifestMagic):]), "%d %s", &format, &sum)
		ok = err == nil
	}
	if !ok {
		return nil, fmt.Errorf("manifest: %w: unknown header", ErrDamaged)
	}
	if format != Format {
		return nil, &feature.Newer{What: "the manifest", Unit: "format", Has: format, Oldest: Format, Newest: Format}
	}
	if is := sha256.Sum256(text); hex.EncodeToString(is[:]) != sum {
		return nil, fmt.Errorf("manifest: %w: its digest does not match", ErrDamaged)
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("manifest: %w: %w", ErrDamaged, err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// AssignPartitions assigns partitions to their tables in order. If the partitions do not cover each table exactly
// once, AssignPartitions returns an error.
func AssignPartitions(tables []Table, parts []Partition) ([]Table, error) {
	of := map[uint32][]Partition{}
	for _, p := range parts {
		of[p.Table] = append(of[p.Table], p)
	}
	for i := range tables {
		t := &tables[i]
		t.Partitions = of[t.ID]
		slices.SortFunc(t.Partitions, func(a, b Partition) int { return bytes.Compare(a.Begin, b.Begin) })
		var end []byte
		for j, p := range t.Partitions {
			if !bytes.Equal(p.Begin, end) || j > 0 && len(end) == 0 {
				return nil, fmt.Errorf("cannot find the range before partition %d of table %s.%s: its leader did not respond", p.ID,
					t.Keyspace, t.Name)
			}
			end = p.End
			t.Partitions[j].Table = 0
		}
		if len(t.Partitions) == 0 || len(end) > 0 {
			return nil, fmt.Errorf("cannot find a partition of table %s.%s: its leader did not respond", t.Keyspace, t.Name)
		}
	}
	return tables, nil
}
