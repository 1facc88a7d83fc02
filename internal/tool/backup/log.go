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
	// logDir is where the segments of the log are.
	logDir = "backups/log/"
	// atomMax is for how long there may be no mark between two pieces of the log that are taken for one.
	atomMax = 5 * time.Second
)

// Log is what an archive can restore, by the names of its segments and by the backups that begin it.
type Log struct {
	// Chains are pieces of the log without a hole, the oldest first.
	Chains []Chain
	// Bases are the backups of marks, complete, the oldest first.
	Bases []*archive.Manifest
	// Missing says of a chain, by its place, that segments are missing before it.
	Missing []bool
}

// Chain is a piece of the log without a hole.
type Chain []archive.SegmentName

// First and Last are the times of its first and last marks.
func (c Chain) First() time.Time { return c[0].First }

// Last is the other end.
func (c Chain) Last() time.Time { return c[len(c)-1].Last }

// Range is an interval of which any mark can be restored.
type Range struct{ From, To time.Time }

// LoadLog looks at what is there. It reads names and manifests, and no segments.
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

// chainOf is the chain that goes on from a backup, nil if there is none.
func (l *Log) chainOf(m *archive.Manifest) Chain {
	for _, c := range l.Chains {
		if !m.Time.Before(c.First()) && !m.Time.After(c.Last()) {
			return c
		}
	}
	return nil
}

// Ranges are the intervals of which any mark can be restored, the oldest first. Where there is no mark for a moment
// only, one goes on; where there was none for longer, while nobody archived, it ends.
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

// Newest is the newest time that can be restored; false if there is none.
func (l *Log) Newest() (time.Time, bool) {
	r := l.Ranges()
	if len(r) == 0 {
		return time.Time{}, false
	}
	return r[len(r)-1].To, true
}

// readSegment reads a segment, and compares it with its name.
func readSegment(ctx context.Context, t Target, n archive.SegmentName) (*archive.Segment, string, error) {
	data, err := t.Get(ctx, logDir+n.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("segment %s of the log is missing", &n)
	}
	if err != nil {
		return nil, "", err
	}
	s, sum, err := archive.DecodeSegment(data)
	if err == nil && (n.Digest != short(sum) || n.Previous != short(s.Previous)) {
		err = fmt.Errorf("%w: it is not the one that its name says", archive.ErrDamaged)
	}
	if err != nil {
		return nil, "", fmt.Errorf("segment %s of the log: %w", &n, err)
	}
	return s, sum, nil
}

// short is how much of a digest the name of a segment has.
func short(sum string) string { return sum[:min(len(sum), archive.ShortDigestLen)] }

// Verify reads all segments of the log, and checks them, and that each goes on where the one before has ended. told, if
// not nil, hears of each.
func (l *Log) Verify(ctx context.Context, t Target, told func(p Progress)) error {
	var p Progress
	for _, c := range l.Chains {
		before := ""
		for i, n := range c {
			s, sum, err := readSegment(ctx, t, n)
			if err != nil {
				return err
			}
			if i > 0 && s.Previous != before {
				return fmt.Errorf("segment %s of the log: %w: it does not go on from the one before", &n,
					archive.ErrDamaged)
			}
			before = sum
			err = s.Each(func(_ int, _ uint32, _, value []byte) error { p.Done += int64(len(value)); return nil })
			if err != nil {
				return fmt.Errorf("segment %s of the log: %w", &n, err)
			}
			if p.Files++; told != nil {
				told(p)
			}
		}
	}
	return nil
}
