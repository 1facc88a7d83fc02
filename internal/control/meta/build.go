// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Build is the progress of an index build. The entries of all rows up to a position are durable. A node that takes over
// the build resumes at this position.
type Build struct {
	// Policy is the schema.Index.Policy of the build. A build with another policy starts from the beginning.
	Policy string
	// Token and Key identify the logical partition of the position. WholePartition reports whether the partition is
	// complete. If it is false, Clustering is the clustering key of the last processed row.
	Token           token.Token
	Key, Clustering []byte
	WholePartition  bool
	// Rows is the number of processed rows.
	Rows int64
}

// Percent returns the processed part of the ring in percent.
func (b *Build) Percent() int {
	if b == nil {
		return 0
	}
	return int(b.Token.Position() >> 32 * 100 >> 32)
}

// These are the formats of a build record. buildNotStarted is also used for builds without recorded progress.
const (
	buildNotStarted   = 1
	buildWithProgress = 2
)

// Append appends the encoded record. A nil Build encodes a build that has not been started.
func (b *Build) Append(dst []byte) []byte {
	if b == nil {
		return append(dst, buildNotStarted)
	}
	w := codec.Writer(append(dst, buildWithProgress))
	w.Text(b.Policy)
	w.Fixed(uint64(b.Token))
	w.Bytes(b.Key)
	w.Null(b.Clustering)
	w.Flag(b.WholePartition)
	w.Uint(uint64(b.Rows))
	return w
}

// DecodeBuild decodes a record. It returns nil if the format is unknown. The build then starts from the beginning.
func DecodeBuild(record []byte) *Build {
	if len(record) == 0 || record[0] != buildWithProgress {
		return nil
	}
	r := codec.NewReader(record[1:], ErrMalformed)
	b := &Build{Policy: r.Text(), Token: token.Token(r.Fixed()), Key: r.Bytes(), Clustering: r.Null(),
		WholePartition: r.Flag(),
		Rows:           int64(r.Uint())}
	if r.End() != nil {
		return nil
	}
	return b
}

// WithBuilding returns a state in which an index must be built from the beginning if building is true, and is complete
// otherwise.
func (s *State) WithBuilding(index uint32, building bool) *State {
	next := *s
	next.Building = with(s.Building, index, true, building)
	next.Builds = with(s.Builds, index, nil, false)
	return &next
}

// WithBuild returns a state with the progress of an index build.
func (s *State) WithBuild(index uint32, b *Build) *State {
	next := *s
	next.Builds = with(s.Builds, index, b, true)
	return &next
}
