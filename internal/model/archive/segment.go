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

// SegmentFormat is the version of segments. A reader refuses a newer one.
const SegmentFormat = 1

const (
	segmentMagic = "ilion-log "
	// nameTime is the form of times in names of segments: names are in the order of time.
	nameTime = "20060102T150405.000Z"
	// ShortSum is how much of a digest a name has.
	ShortDigestLen = 16
)

// Segment is a piece of the log of an archive: some marks, and what has changed before each of them since the one
// before. What a mark has is keys and values as in files of a backup, with the number of the mark in the segment and
// the id of the table before the key, 4 bytes each. Values are to be merged into what is there. Table 0 has the
// cluster's records, under RecordsKey, where they have changed.
type Segment struct {
	Cluster  string `json:"cluster"`
	Software string `json:"software"`
	// Run is that of the last mark; see Taken.
	Incarnation string `json:"run,omitempty"`
	// Before is the digest of the segment before this one, empty where the log begins: then the first mark has nothing
	// but records, and a backup of its moment has the state.
	Previous string `json:"before,omitempty"`
	// Marks are ascending in time.
	RestorePoints []RestorePoint `json:"marks"`
	// Partitions are where the logs of all partitions were at the last mark.
	Partitions []Partition `json:"partitions"`
	// Described names the records as of the last mark.
	MetadataFile string `json:"described"`
	// Files have the changes; they follow the head in this order, in so many bytes.
	Files []SegmentFile `json:"files"`
	// Data are the files, one behind the other.
	Data []byte `json:"-"`
}

// RecordsKey is the key of the records.
const MetadataKey = "records"

// SegmentFile is a file in a segment.
type SegmentFile struct {
	File
	// Size is how long the file is, compressed.
	Size int `json:"size"`
}

// Mark is a moment of the archive: any mark can be restored.
type RestorePoint struct {
	Time time.Time `json:"moment"`
	// Still is for how long writers had to wait at most.
	WritePause time.Duration `json:"still"`
	// Tables are those that there were, without partitions, where they have changed since the mark before.
	Tables []Table `json:"tables,omitempty"`
}

// SegmentName is what the name of a segment says, so that nobody has to read segments to know what can be restored.
type SegmentName struct {
	// First and Last are the times of its first and last marks.
	First, Last time.Time
	// Before and Sum are how the digests of the segment before and of this one begin; Before is empty if there is none.
	Previous, Digest string
	// Described says that the records have changed in it.
	HasMetadata bool
}

// String is the name.
func (n *SegmentName) String() string {
	before, records := cmp.Or(n.Previous, "begin"), "d"
	if n.HasMetadata {
		records = "r"
	}
	return strings.Join([]string{n.First.UTC().Format(nameTime), n.Last.UTC().Format(nameTime), before, n.Digest, records},
		"-")
}

// ParseSegmentName reads what String wrote.
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

// Add adds a file of records.
func (s *Segment) Add(b *Builder) {
	data := b.Data()
	s.Files = append(s.Files, SegmentFile{File: b.File(), Size: len(data)})
	s.Data = append(s.Data, data...)
}

// Encode is the segment as it is stored, its digest, and its name.
func (s *Segment) Encode(described bool) (data []byte, sum string, name SegmentName, err error) {
	head, err := json.Marshal(s)
	if err != nil {
		return nil, "", name, err
	}
	body := slices.Concat(head, []byte("\n"), s.Data)
	digest := sha256.Sum256(body)
	sum = hex.EncodeToString(digest[:])
	name = SegmentName{First: s.RestorePoints[0].Time, Last: s.RestorePoints[len(s.RestorePoints)-1].Time, Digest: sum[:ShortDigestLen],
		HasMetadata: described}
	if s.Previous != "" {
		name.Previous = s.Previous[:ShortDigestLen]
	}
	return append(fmt.Appendf(nil, "%s%d %s\n", segmentMagic, SegmentFormat, sum), body...), sum, name, nil
}

// DecodeSegment reads what Encode wrote, or returns ErrDamaged or a *feature.Newer.
func DecodeSegment(data []byte) (s *Segment, sum string, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	var format uint64
	if ok = ok && strings.HasPrefix(string(line), segmentMagic); ok {
		_, err := fmt.Sscanf(string(line[len(segmentMagic):]), "%d %s", &format, &sum)
		ok = err == nil
	}
	if !ok {
		return nil, "", fmt.Errorf("segment: %w: it is none of an archive", ErrDamaged)
	}
	if format != SegmentFormat {
		return nil, "", &feature.Newer{What: "the segment", Unit: "format", Has: format, Oldest: SegmentFormat,
			Newest: SegmentFormat}
	}
	if is := sha256.Sum256(body); hex.EncodeToString(is[:]) != sum {
		return nil, "", fmt.Errorf("segment: %w: its digest is another one", ErrDamaged)
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

// Each passes on the changes of all marks, in order of marks, tables and keys.
func (s *Segment) Each(fn func(mark int, table uint32, key, value []byte) error) error {
	rest := s.Data
	for _, f := range s.Files {
		if f.Size < 0 || f.Size > len(rest) {
			return fmt.Errorf("segment: %w: it ends too soon", ErrDamaged)
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

// segmentHead is how many bytes stand before the keys of a segment.
const keyPrefixLen = 4 + 4

// AppendKey appends a key of a segment; key is with the id of its table.
func AppendKey(dst []byte, mark int, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(mark)), key...)
}

func splitKey(key []byte) (mark int, table uint32, own []byte, ok bool) {
	if len(key) < keyPrefixLen {
		return 0, 0, nil, false
	}
	return int(binary.BigEndian.Uint32(key)), binary.BigEndian.Uint32(key[4:]), key[keyPrefixLen:], true
}
