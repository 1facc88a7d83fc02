// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// segment is the open segment.
type segment struct {
	archive.Segment
	b         archive.Builder
	began     time.Time
	described bool
}

func (s *segment) full() bool {
	return len(s.Data)+len(s.b.Plain()) >= segmentBytes || time.Since(s.began) >= segmentTime
}

// add adds a change to the newest restore point. Keys must be in ascending order.
func (s *segment) add(key, value []byte) error {
	if err := s.b.Add(archive.AppendKey(nil, len(s.RestorePoints)-1, key), value); err != nil {
		return err
	}
	if s.b.Full() {
		s.Add(&s.b)
		s.b = archive.Builder{}
	}
	return nil
}

// recordsTable is the table ID under which the metadata of the cluster is stored.
var recordsTable = make([]byte, 4)

// enter adds a restore point to the open segment. It also adds the changes before the restore point.
func (f *Follower) enter(taken *archive.Snapshot, c *changes) error {
	if f.open == nil {
		f.open = &segment{began: time.Now()}
		f.open.Segment.Cluster, f.open.Segment.Software = taken.Cluster, taken.Software
		if f.tip != nil {
			f.open.Previous = f.tip.sum
		}
	}
	if f.tip == nil {
		f.tip = &tip{cluster: taken.Cluster}
	}
	s := f.open
	f.tip.records = taken.Metadata
	m := archive.RestorePoint{Time: taken.Time, WritePause: taken.WritePause}
	tables, list := plainTables(taken.Tables)
	changed := taken.MetadataFile != f.tip.described || tables != f.tip.tables
	if changed {
		m.Tables = list
	}
	s.RestorePoints = append(s.RestorePoints, m)
	if changed {
		s.described = true
		if err := s.add(append(bytes.Clone(recordsTable), archive.MetadataKey...), taken.Metadata); err != nil {
			return err
		}
	}
	if err := c.each(s.add); err != nil {
		return err
	}
	s.Partitions = s.Partitions[:0]
	for _, t := range taken.Tables {
		s.Partitions = append(s.Partitions, t.Partitions...)
	}
	for i := range s.Partitions {
		s.Partitions[i].Node = ""
	}
	s.Incarnation, s.MetadataFile = taken.Incarnation, taken.MetadataFile
	f.tip.run, f.tip.described, f.tip.tables = taken.Incarnation, taken.MetadataFile, tables
	f.tip.moment, f.tip.still = taken.Time, taken.WritePause
	f.tip.reach(s.Partitions)
	return nil
}

// plainTables returns tables without their partitions. It returns them as values and as text.
func plainTables(tables []archive.Table) (text string, list []archive.Table) {
	for _, t := range tables {
		t.Partitions = nil
		list = append(list, t)
	}
	b, _ := json.Marshal(list)
	return string(b), list
}

// store stores the open segment. It retries as long as necessary. Until the segment is stored, the follower takes no
// restore points. If another process has taken over the repository, store returns an error.
func (f *Follower) store(ctx context.Context) error {
	s := f.open
	if s == nil {
		return nil
	}
	if s.b.Records() > 0 {
		s.Add(&s.b)
		s.b = archive.Builder{}
	}
	data, sum, name, err := s.Encode(s.described)
	if err != nil {
		return err
	}
	for {
		owner, err := f.Target.Get(ctx, ownerName)
		if err == nil && string(owner) != f.id {
			return ErrTaken
		}
		if err == nil {
			err = f.Target.Put(ctx, logDir+name.String(), data)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		if err := f.ail(ctx, "cannot write to the repository", err); err != nil {
			return err
		}
	}
	f.stored, f.tip.sum, f.bytes = name.Last, sum, f.bytes+int64(len(data))
	f.open = nil
	return nil
}
