// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// SegmentFormat is the version of segments. A reader rejects newer versions.
const SegmentFormat = 1

const (
	segmentMagic = "ilion-log "
	// nameTime is the time format in segment names. Names with this format sort by time.
	nameTime = "20060102T150405.000Z"
	// ShortDigestLen is the length of the digest prefixes in names.
	ShortDigestLen = 16
)

// Segment is a part of the log of an archive. It contains restore points, and the changes between each restore point
// and the previous restore point. Changes are keys and values as in the files of a backup. Before each key are the
// index of the restore point in the segment and the table ID, with 4 bytes each. Values must be merged into the
// existing rows. Table 0 holds the cluster metadata, under MetadataKey, if it has changed.
type Segment struct {
	Cluster  string `json:"cluster"`
	Software string `json:"software"`
	// Incarnation is the incarnation at the last restore point (see Snapshot).
	Incarnation string `json:"run,omitempty"`
	// Previous is the digest of the previous segment, or empty for the first segment of a log. The first restore point
	// of the first segment has only metadata. A backup taken at the same time contains the data.
	Previous string `json:"before,omitempty"`
	// RestorePoints is in ascending order of time.
	RestorePoints []RestorePoint `json:"marks"`
	// Partitions holds the log positions of all partitions at the last restore point.
	Partitions []Partition `json:"partitions"`
	// MetadataFile is the name of the metadata file at the last restore point.
	MetadataFile string `json:"described"`
	// Files describes the files with the changes. The files follow the header in the order of Files. Their sizes are
	// in Files.
	Files []SegmentFile `json:"files"`
	// Data holds the concatenated files.
	Data []byte `json:"-"`
}

// MetadataKey is the key of the cluster metadata.
const MetadataKey = "records"

// SegmentFile is a file in a segment.
type SegmentFile struct {
	File
	// Size is the compressed size of the file.
	Size int `json:"size"`
}

// RestorePoint is a consistent state of the archive that can be restored.
type RestorePoint struct {
	Time time.Time `json:"moment"`
	// WritePause is the longest time for which the restore point blocked writers.
	WritePause time.Duration `json:"still"`
	// Tables lists the existing tables, without partitions. It is set only if the tables have changed since the
	// previous restore point.
	Tables []Table `json:"tables,omitempty"`
}

// SegmentName is the information in the name of a segment. SegmentName allows a restore to select segments without
// reading them.
type SegmentName struct {
	// First and Last are the times of the segment's first and last restore points.
	First, Last time.Time
	// Previous and Digest are prefixes of the digests of the previous segment and of this segment. Previous is empty
	// for the first segment.
	Previous, Digest string
	// HasMetadata reports whether the segment contains changed metadata.
	HasMetadata bool
}

// String returns the segment's name.
func (n *SegmentName) String() string {
	before, records := cmp.Or(n.Previous, "begin"), "d"
	if n.HasMetadata {
		records = "r"
	}
	return strings.Join([]string{n.First.UTC().Format(nameTime), n.Last.UTC().Format(nameTime), before, n.Digest,
		records},
		"-")
}

// ParseSegmentName parses the output of String.
func ParseSegmentName(text string) (n SegmentName, ok bool) {
	p := strings.Split(text, "-")
	if len(p) != 5 {
		return n, false
	}
	first, err1 := time.Parse(nameTime, p[0])
	last, err2 := time.Parse(nameTime, p[1])
	if p[2] == "begin" {
		p[2] = ""
	}
	n = SegmentName{First: first, Last: last, Previous: p[2], Digest: p[3], HasMetadata: p[4] == "r"}
	return n, errors.Join(err1, err2) == nil && n.String() == text && isHex(n.Digest, ShortDigestLen) &&
		(n.Previous == "" || isHex(n.Previous, ShortDigestLen))
}

// Add appends a file of records.
func (s *Segment) Add(b *Builder) {
	data := b.Data()
	s.Files = append(s.Files, SegmentFile{File: b.File(), Size: len(data)})
	s.Data = append(s.Data, data...)
}

// Encode returns the stored form of the segment, the digest, and the name.
func (s *Segment) Encode(described bool) (data []byte, sum string, name SegmentName, err error) {
	head, err := json.Marshal(s)
	if err != nil {
		return nil, "", name, err
	}
	body := slices.Concat(head, []byte("\n"), s.Data)
	digest := sha256.Sum256(body)
	sum = hex.EncodeToString(digest[:])
	name = SegmentName{First: s.RestorePoints[0].Time, Last: s.RestorePoints[len(s.RestorePoints)-1].Time,
		Digest:      sum[:ShortDigestLen],
		HasMetadata: described}
	if s.Previous != "" {
		name.Previous = s.Previous[:ShortDigestLen]
	}
	return append(fmt.Appendf(nil, "%s%d %s\n", segmentMagic, SegmentFormat, sum), body...), sum, name, nil
}

// DecodeSegment reads the output of Encode. On failure, DecodeSegment returns ErrDamaged or a *feature.Newer.
func DecodeSegment(data []byte) (s *Segment, sum string, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	var format uint64
	if ok = ok && strings.HasPrefix(string(line), segmentMagic); ok {
		_, err := fmt.Sscanf(string(line[len(segmentMagic):]), "%d %s", &format, &sum)
		ok = err == nil
	}
	if !ok {
		return nil, "", fmt.Errorf("segment: %w: unknown header", ErrDamaged)
	}
	if format != SegmentFormat {
		return nil, "", &feature.Newer{What: "the segment", Unit: "format", Has: format, Oldest: SegmentFormat,
			Newest: SegmentFormat}
	}
	if is := sha256.Sum256(body); hex.EncodeToString(is[:]) != sum {
		return nil, "", fmt.Errorf("segment: %w: its digest does not match", ErrDamaged)
	}
	head, rest, _ := bytes.Cut(body, []byte("\n"))
	s = new(Segment)
	if err := json.Unmarshal(head, s); err != nil {
		return nil, "", fmt.Errorf("segment: %w: %w", ErrDamaged, err)
	}
	if err := s.check(); err != nil {
		return nil, "", err
	}
	s.Data = rest
	return s, sum, nil
}

// Each calls fn for the changes of all restore points. Changes are in the order of restore points, tables, and keys.
func (s *Segment) Each(fn func(mark int, table uint32, key, value []byte) error) error {
	rest := s.Data
	for _, f := range s.Files {
		if f.Size < 0 || f.Size > len(rest) {
			return fmt.Errorf("segment: %w: it is truncated", ErrDamaged)
		}
		plain, err := Unpack(f.Name, rest[:f.Size])
		if err != nil {
			return err
		}
		rest = rest[f.Size:]
		if err := EachRecord(plain, func(key, value []byte) error {
			mark, table, own, ok := splitKey(key)
			if !ok || mark >= len(s.RestorePoints) {
				return fmt.Errorf("segment: %w: key %x", ErrDamaged, key)
			}
			return fn(mark, table, own, value)
		}); err != nil {
			return err
		}
	}
	return nil
}

// keyPrefixLen is the length of the prefix before the keys of a segment.
const keyPrefixLen = 4 + 4

// AppendKey appends a key of a segment. key starts with the table ID.
func AppendKey(dst []byte, mark int, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(mark)), key...)
}

func splitKey(key []byte) (mark int, table uint32, own []byte, ok bool) {
	if len(key) < keyPrefixLen {
		return 0, 0, nil, false
	}
	return int(binary.BigEndian.Uint32(key)), binary.BigEndian.Uint32(key[4:]), key[keyPrefixLen:], true
}
