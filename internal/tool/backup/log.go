// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

const (
	// logDir is the directory that contains the segments of the log.
	logDir = "backups/log/"
	// atomMax is the maximum interval between two restore points in a continuous part of the log.
	atomMax = 5 * time.Second
)

// Log describes the restorable content of an archive. It is derived from the names of the segments and from the bases.
type Log struct {
	// Chains lists the continuous parts of the log. The oldest part is first.
	Chains []Chain
	// Bases lists the complete backups from which the log continues. The oldest backup is first.
	Bases []*archive.Manifest
	// Missing reports, for each chain, whether segments before the chain are missing.
	Missing []bool
}

// Chain is a continuous part of the log.
type Chain []archive.SegmentName

// First returns the time of the first restore point.
func (c Chain) First() time.Time { return c[0].First }

// Last returns the time of the last restore point.
func (c Chain) Last() time.Time { return c[len(c)-1].Last }

// Range is an interval in which every restore point can be restored.
type Range struct{ From, To time.Time }

// LoadLog reads the state of an archive from names and manifests. LoadLog reads no segments.
func LoadLog(ctx context.Context, t Target) (*Log, error) {
	files, err := t.List(ctx, logDir)
	if err != nil {
		return nil, err
	}
	var names []archive.SegmentName
	for _, file := range files {
		if n, ok := archive.ParseSegmentName(path.Base(file)); ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b archive.SegmentName) int {
		return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last), cmp.Compare(a.Digest, b.Digest))
	})
	l := new(Log)
	last := ""
	for _, n := range names {
		if n.Previous == "" || n.Previous != last {
			l.Chains = append(l.Chains, nil)
			l.Missing = append(l.Missing, n.Previous != "")
		}
		c := len(l.Chains) - 1
		l.Chains[c] = append(l.Chains[c], n)
		last = n.Digest
	}
	ids, err := List(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		m, err := Load(ctx, t, id)
		if err != nil {
			return nil, err
		}
		if m.Archived {
			l.Bases = append(l.Bases, m)
		}
	}
	slices.SortFunc(l.Bases, func(a, b *archive.Manifest) int { return a.Time.Compare(b.Time) })
	return l, nil
}

// chainOf returns the chain that continues a backup, or nil.
func (l *Log) chainOf(m *archive.Manifest) Chain {
	for _, c := range l.Chains {
		if !m.Time.Before(c.First()) && !m.Time.After(c.Last()) {
			return c
		}
	}
	return nil
}

// Ranges returns the intervals in which every restore point can be restored. The oldest interval is first. A short gap
// between restore points does not end an interval. A longer gap, during which no archiver ran, ends an interval.
func (l *Log) Ranges() (out []Range) {
	for _, c := range l.Chains {
		base := slices.IndexFunc(l.Bases, func(m *archive.Manifest) bool {
			return !m.Time.Before(c.First()) && !m.Time.After(c.Last())
		})
		if base < 0 {
			continue
		}
		from := l.Bases[base].Time
		for _, n := range c {
			if n.Last.Before(from) {
				continue
			}
			if n.First.After(from) {
				from = n.First
			}
			if last := len(out) - 1; last >= 0 && from.Sub(out[last].To) <= atomMax {
				out[last].To = n.Last
			} else {
				out = append(out, Range{from, n.Last})
			}
		}
	}
	return out
}

// Newest returns the most recent restore point. ok is false if no restore point exists.
func (l *Log) Newest() (time.Time, bool) {
	r := l.Ranges()
	if len(r) == 0 {
		return time.Time{}, false
	}
	return r[len(r)-1].To, true
}

// readSegment reads a segment and compares it with the segment's name.
func readSegment(ctx context.Context, t Target, n archive.SegmentName) (*archive.Segment, string, error) {
	data, err := t.Get(ctx, logDir+n.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("archive segment %s is missing", &n)
	}
	if err != nil {
		return nil, "", err
	}
	s, sum, err := archive.DecodeSegment(data)
	if err == nil && (n.Digest != short(sum) || n.Previous != short(s.Previous)) {
		err = fmt.Errorf("%w: its contents do not match its name", archive.ErrDamaged)
	}
	if err != nil {
		return nil, "", fmt.Errorf("archive segment %s: %w", &n, err)
	}
	return s, sum, nil
}

// short returns the part of a digest that the name of a segment contains.
func short(sum string) string { return sum[:min(len(sum), archive.ShortDigestLen)] }

// Verify reads and checks all segments of the log. It also checks that each segment continues the previous segment. If
// d is not nil, it shows the progress.
func (l *Log) Verify(ctx context.Context, t Target, d Display) error {
	var p Progress
	for _, c := range l.Chains {
		before := ""
		for i, n := range c {
			s, sum, err := readSegment(ctx, t, n)
			if err != nil {
				return err
			}
			if i > 0 && s.Previous != before {
				return fmt.Errorf("archive segment %s: %w: it does not continue the previous segment", &n,
					archive.ErrDamaged)
			}
			before = sum
			err = s.Each(func(_ int, _ uint32, _, value []byte) error { p.Done += int64(len(value)); return nil })
			if err != nil {
				return fmt.Errorf("archive segment %s: %w", &n, err)
			}
			if p.Files++; d != nil {
				d.Show(p)
			}
		}
	}
	return nil
}
