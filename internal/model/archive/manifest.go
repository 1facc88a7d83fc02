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

// Format is the version of manifests. A reader refuses a newer one.
const Format = 1

const manifestMagic = "ilion-backup "

// Manifest lists what a backup has. A backup without one is not complete.
type Manifest struct {
	// ID is the name of the backup: the time at which it began.
	ID string `json:"id"`
	// Moment is the instant whose state it has, by the clock of the node that was asked; Ended is when it was complete.
	Time      time.Time `json:"moment"`
	Completed time.Time `json:"ended"`
	// Cluster is the identity of the cluster, or of the node if it stands alone; Software the build that made it.
	Cluster  string `json:"cluster"`
	Software string `json:"software"`
	// Followed says that the moment is a mark of the archive beside the backups, which begins or goes on there.
	Archived bool `json:"followed,omitempty"`
	// Records is the file with what the cluster knows of itself: schema, map, nodes, roles, settings.
	Metadata File `json:"records"`
	// Tables are in order of their names.
	Tables []Table `json:"tables"`
}

// Table is a table of a backup, with the id that it had.
type Table struct {
	Keyspace   string      `json:"keyspace"`
	Name       string      `json:"name"`
	ID         uint32      `json:"id"`
	Partitions []Partition `json:"partitions"`
}

// Partition is a physical partition as it was at the moment.
type Partition struct {
	ID uint64 `json:"id"`
	// Begin and End bound its positions (keys.Span); an empty End is that of the ring. Epoch, Term and Applied are its
	// place in its own history: nothing was written between two backups that have the same.
	Begin   []byte `json:"begin,omitempty"`
	End     []byte `json:"end,omitempty"`
	Epoch   uint64 `json:"epoch"`
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
	// Node has the state as long as the backup is being made.
	Node  string `json:"node,omitempty"`
	Table uint32 `json:"table,omitempty"`
	// Files have the records, in ascending order.
	Files []File `json:"files"`
}

// Same reports whether nothing can have been written between two states of one partition of one cluster.
func (p *Partition) Unchanged(o *Partition) bool {
	return p.ID == o.ID && p.Epoch == o.Epoch && p.Term == o.Term && p.Applied == o.Applied &&
		bytes.Equal(p.Begin, o.Begin) && bytes.Equal(p.End, o.End)
}

// File is a file of a backup: its name, how many records it has, and how large they are before they are compressed.
// First is the key of its first record, without the table's id.
type File struct {
	Name    string `json:"name"`
	Records int    `json:"records"`
	Bytes   int64  `json:"bytes"`
	First   []byte `json:"first,omitempty"`
}

// Files calls fn with all files, once for each place where a file is used.
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

// Encode is the manifest as it is stored.
func (m *Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return append(fmt.Appendf(nil, "%s%d %s\n", manifestMagic, Format, hex.EncodeToString(sum[:])), text...), nil
}

// Decode reads what Encode wrote, or returns ErrDamaged or a *feature.Newer.
func Decode(data []byte) (*Manifest, error) {
	head, text, ok := bytes.Cut(data, []byte("\n"))
	var format uint64
	var sum string
	if ok = ok && strings.HasPrefix(string(head), manifestMagic); ok {
		_, err := fmt.Sscanf(string(head[len(manifestMagic):]), "%d %s", &format, &sum)
		ok = err == nil
	}
	if !ok {
		return nil, fmt.Errorf("manifest: %w: it is none of a backup", ErrDamaged)
	}
	if format != Format {
		return nil, &feature.Newer{What: "the manifest", Unit: "format", Has: format, Oldest: Format, Newest: Format}
	}
	if is := sha256.Sum256(text); hex.EncodeToString(is[:]) != sum {
		return nil, fmt.Errorf("manifest: %w: its digest is another one", ErrDamaged)
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

// Tile puts partitions to their tables, in order, and refuses what does not cover each of them exactly once.
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
				return nil, fmt.Errorf("what is before partition %d of table %s.%s has no leader that answers", p.ID,
					t.Keyspace, t.Name)
			}
			end = p.End
			t.Partitions[j].Table = 0
		}
		if len(t.Partitions) == 0 || len(end) > 0 {
			return nil, fmt.Errorf("a partition of table %s.%s has no leader that answers", t.Keyspace, t.Name)
		}
	}
	return tables, nil
}
