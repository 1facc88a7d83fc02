// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// Point is a restore point of an archive. It consists of a base backup and the changes between the base and the
// restore point.
type Point struct {
	// Manifest is the manifest of the base with the tables and the time of the restore point.
	Manifest *archive.Manifest
	// Records is the decoded metadata of the cluster at the restore point. It is nil if it equals the metadata in the
	// manifest.
	Records []byte

	target     Target
	segments   Chain
	base, mark time.Time
}

// At returns the newest restore point at or before the given time.
func (l *Log) At(ctx context.Context, t Target, at time.Time) (*Point, error) {
	var base *archive.Manifest
	for _, m := range l.Bases {
		if !m.Time.After(at) && l.chainOf(m) != nil {
			base = m
		}
	}
	has := func(r Range) bool { return !at.Before(r.From) && !at.After(r.To) }
	if base == nil || !slices.ContainsFunc(l.Ranges(), has) {
		return nil, l.cannot(at)
	}
	p := &Point{target: t, base: base.Time}
	chain := l.chainOf(base)
	for _, n := range chain {
		if n.Last.After(base.Time) && !n.First.After(at) {
			p.segments = append(p.segments, n)
		}
	}
	m := *base
	p.Manifest = &m
	if err := p.find(ctx, at); err != nil {
		return nil, err
	}
	m.ID, m.Time = base.ID+"+"+p.mark.Sub(base.Time).String(), p.mark
	return p, nil
}

func (l *Log) cannot(at time.Time) error {
	ranges := l.Ranges()
	if len(ranges) == 0 {
		return errors.New("cannot restore to a point in time: the repository contains no archive. Use ilion backup " +
			"archive " +
			"to create an archive")
	}
	var texts []string
	for _, r := range ranges[max(0, len(ranges)-4):] {
		texts = append(texts, "from "+r.From.Format(TimeFormat)+" to "+r.To.Format(TimeFormat))
	}
	return fmt.Errorf("cannot restore %s. Available: %s", at.UTC().Format(TimeFormat),
		strings.Join(texts, ", and "))
}

// find finds the time of the restore point and the metadata of the cluster at that time.
func (p *Point) find(ctx context.Context, at time.Time) error {
	p.mark = p.base
	described := false
	for i := len(p.segments) - 1; i >= 0; i-- {
		last := i == len(p.segments)-1
		if !last && !p.segments[i].HasMetadata {
			continue
		}
		s, _, err := readSegment(ctx, p.target, p.segments[i])
		if err != nil {
			return err
		}
		n := -1
		for j, m := range s.RestorePoints {
			if m.Time.After(at) || !m.Time.After(p.base) {
				continue
			}
			if last && m.Time.After(p.mark) {
				p.mark = m.Time
			}
			if len(m.Tables) > 0 {
				n = j
			}
		}
		if described || n < 0 {
			continue
		}
		described = true
		p.tables(s.RestorePoints[n].Tables)
		err = s.Each(func(mark int, table uint32, key, value []byte) error {
			if mark == n && table == 0 && string(key) == archive.MetadataKey {
				p.Records = append([]byte{}, value...)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tables replaces the tables of the manifest with the tables at the restore point. The base contains no data for newer
// tables.
func (p *Point) tables(list []archive.Table) {
	had := p.Manifest.Tables
	p.Manifest.Tables = nil
	for _, t := range list {
		for _, b := range had {
			if b.ID == t.ID {
				t.Partitions = b.Partitions
			}
		}
		p.Manifest.Tables = append(p.Manifest.Tables, t)
	}
}

// change is a key with its table ID and a value to merge.
type change struct{ key, value []byte }

// Each passes the changes between the base and the restore point to fn. It passes the changes of one restore point at
// a time.
func (p *Point) Each(ctx context.Context, fn func(list []change) error) error {
	before := ""
	for i, n := range p.segments {
		s, sum, err := readSegment(ctx, p.target, n)
		if err != nil {
			return err
		}
		if i > 0 && s.Previous != before {
			return fmt.Errorf("archive segment %s: %w: it does not continue the previous segment", &n,
				archive.ErrDamaged)
		}
		before = sum
		var list []change
		at := 0
		err = s.Each(func(mark int, table uint32, key, value []byte) error {
			if m := s.RestorePoints[mark].Time; table == 0 || m.After(p.mark) || !m.After(p.base) {
				return nil
			}
			if mark != at && len(list) > 0 {
				if err := fn(list); err != nil {
					return err
				}
				list = nil
			}
			at = mark
			whole := archive.AppendKey(nil, int(table), key)
			list = append(list, change{whole, value})
			return nil
		})
		if err == nil && len(list) > 0 {
			err = fn(list)
		}
		if err != nil {
			return fmt.Errorf("archive segment %s: %w", &n, err)
		}
	}
	return nil
}
