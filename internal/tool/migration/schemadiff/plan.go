// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// Verdict is the planned action for an object.
type Verdict string

const (
	// Create means that the object will be created.
	Create Verdict = "create"
	// Taken means that the object exists.
	Taken Verdict = "exists"
	// Refused means that the target rejects the object.
	Refused Verdict = "refused"
	// Differs means that a different object exists.
	Differs Verdict = "differs"
)

// Step is an object with its verdict.
type Step struct {
	Object
	Verdict Verdict
	// Reason is the reason for the rejection, or a description of the difference.
	Reason string
}

// Plan contains the steps for a schema.
type Plan struct {
	Steps []Step
	// Notes describes insignificant differences of existing objects. These are differences in the options of tables
	// and keyspaces.
	Notes []string
}

// Make compares the objects of a source with the objects of a target.
func Make(ctx context.Context, source, target *bulk.Reader, objects []Object) (*Plan, error) {
	p := &Plan{}
	here := map[string]Object{}
	var keyspaces []string
	err := rows(ctx, target, 1, "SELECT keyspace_name FROM system_schema.keyspaces", func(row []string) {
		keyspaces = append(keyspaces, row[0])
	})
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.Kind != Keyspace || !slices.Contains(keyspaces, o.Keyspace) {
			continue
		}
		found, err := describe(ctx, target, o.Keyspace)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			here[f.String()] = f
		}
	}
	for _, o := range objects {
		step := Step{Object: o, Verdict: Create}
		if there, ok := here[o.String()]; ok {
			if step.Reason, err = p.compare(ctx, source, target, o, there); err != nil {
				return nil, err
			}
			if step.Verdict = Taken; step.Reason != "" {
				step.Verdict = Differs
			}
		} else if step.Reason = refusal(o); step.Reason != "" {
			step.Verdict = Refused
		}
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}

// compare describes how an existing object differs, or returns "".
func (p *Plan) compare(ctx context.Context, source, target *bulk.Reader, o, there Object) (string, error) {
	was, is := fields(o.Text), fields(there.Text)
	if was == is {
		return "", nil
	}
	switch o.Kind {
	case Keyspace:
		p.Notes = append(p.Notes, o.String()+" exists with different options")
		return "", nil
	case Table:
		how, err := columns(ctx, source, target, o.name())
		if err != nil || how != "" {
			return how, err
		}
		p.Notes = append(p.Notes, o.String()+" exists with different options: "+options(o.Text, there.Text))
		return "", nil
	case View:
		if before(was) == before(is) {
			return "", nil
		}
	}
	return "the source has " + was + ", but the target has " + is, nil
}

// fields replaces each sequence of white space with a single space and removes control characters.
func fields(s string) string { return plain(strings.Join(strings.Fields(s), " ")) }

// plain removes control characters from a text that a server sent.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// before returns the part of a view's text before the options.
func before(s string) string {
	s, _, _ = strings.Cut(s, " WITH ")
	return s
}

// options returns the option lines of a table that differ.
func options(was, is string) string {
	lines := func(s string) map[string]bool {
		set := map[string]bool{}
		_, s, _ = strings.Cut(s, ") WITH ")
		for l := range strings.SplitSeq(s, "\n") {
			set[strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(l), "AND "), ";")] = true
		}
		return set
	}
	here := lines(is)
	var differ []string
	for l := range lines(was) {
		if !here[l] {
			differ = append(differ, l)
		}
	}
	slices.Sort(differ)
	return "the source has " + strings.Join(differ, ", ")
}

// columns describes how the columns of a table differ.
func columns(ctx context.Context, source, target *bulk.Reader, n bulk.Name) (string, error) {
	var tables [2]*bulk.Table
	for i, r := range []*bulk.Reader{source, target} {
		c, err := r.Conn(ctx)
		if err != nil {
			return "", err
		}
		if tables[i], err = bulk.Describe(c, n); err != nil {
			return "", err
		}
	}
	was, is := tables[0], tables[1]
	var how []string
	for _, c := range was.Columns {
		o, ok := is.Column(c.Name)
		switch {
		case !ok:
			how = append(how, "column "+cqltype.QuoteName(c.Name)+" does not exist in the target")
		case o != c:
			how = append(how, fmt.Sprintf("column %s is %s in the source and %s in the target",
				cqltype.QuoteName(c.Name), c, o))
		}
	}
	for _, c := range is.Columns {
		if _, ok := was.Column(c.Name); !ok {
			how = append(how, "column "+cqltype.QuoteName(c.Name)+" does not exist in the source")
		}
	}
	return strings.Join(how, "; "), nil
}

// Failed returns the steps that are rejected or differ.
func (p *Plan) Failed() (failed []Step) {
	for _, s := range p.Steps {
		if s.Verdict == Refused || s.Verdict == Differs {
			failed = append(failed, s)
		}
	}
	return failed
}

// Tables returns the tables that exist or will be created.
func (p *Plan) Tables() (names []bulk.Name) {
	for _, s := range p.Steps {
		if s.Kind == Table && s.Verdict != Refused && s.Verdict != Differs {
			names = append(names, s.name())
		}
	}
	return names
}

// Existing changes the plan so that it creates no objects. Missing tables are marked as rejected, and all objects
// other than tables are removed from the plan.
func (p *Plan) Existing() {
	var steps []Step
	for _, s := range p.Steps {
		if s.Kind != Table {
			continue
		}
		if s.Verdict == Create {
			s.Verdict, s.Reason = Refused, "it does not exist in the target, and this command does not create tables"
		}
		steps = append(steps, s)
	}
	p.Steps = steps
}
