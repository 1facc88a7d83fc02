// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Set holds the restrictions on columns of one kind. The zero value is empty.
type Set struct {
	// List contains each restriction once. It is sorted by column position and name.
	List []*Restriction
}

// Of returns the restriction of a column, or nil.
func (s *Set) Of(c *schema.Column) *Restriction {
	for _, r := range s.List {
		if slices.Contains(r.Columns, c) {
			return r
		}
	}
	return nil
}

// Add merges a restriction into the set.
func (s *Set) Add(r *Restriction) error {
	merged := r
	var rest []*Restriction
	for _, existing := range s.List {
		if !slices.ContainsFunc(existing.Columns, func(c *schema.Column) bool {
			return slices.Contains(r.Columns, c)
		}) {
			rest = append(rest, existing)
			continue
		}
		m, err := existing.merge(merged)
		if err != nil {
			return err
		}
		merged = m
	}
	s.List = append(rest, merged)
	slices.SortStableFunc(s.List, func(a, b *Restriction) int {
		if d := a.First().Position - b.First().Position; d != 0 {
			return d
		}
		return strings.Compare(a.First().Name, b.First().Name)
	})
	return nil
}

// AddClustering merges a restriction of clustering columns into the set. It rejects a restriction after a slice.
func (s *Set) AddClustering(r *Restriction) error {
	before := s.List
	if err := s.Add(r); err != nil {
		return err
	}
	if len(before) == 0 {
		return nil
	}
	last, first := before[len(before)-1], r.First()
	if last.Kind == Slice && first.Position > last.First().Position {
		return dberr.Invalidf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			first.Name, last.First().Name)
	}
	if first.Position < last.First().Position && r.Kind == Slice {
		next := first
		for _, o := range before {
			if o.First().Position > first.Position {
				next = o.First()
				break
			}
		}
		return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			next.Name, first.Name)
	}
	return nil
}

// Empty reports whether the set has no restrictions.
func (s *Set) Empty() bool { return len(s.List) == 0 }

// Size returns the number of restricted columns.
func (s *Set) Size() int {
	n := 0
	for _, r := range s.List {
		n += len(r.Columns)
	}
	return n
}

// Has reports whether the set has a restriction of a kind.
func (s *Set) Has(k Kind) bool {
	return slices.ContainsFunc(s.List, func(r *Restriction) bool { return r.Kind == k })
}
