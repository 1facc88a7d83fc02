// SPDX-License-Identifier: Apache-2.0

package outline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// Verdict is what becomes of an object.
type Verdict string

const (
	// Create is made, Taken is there already, Refused cannot be there, and Differs is there and is another one.
	Create  Verdict = "create"
	Taken   Verdict = "is there"
	Refused Verdict = "refused"
	Differs Verdict = "differs"
)

// Step is an object and what becomes of it.
type Step struct {
	Object
	Verdict Verdict
	// Reason says why it is refused, or how it differs.
	Reason string
}

// Plan is what is to become of a schema.
type Plan struct {
	Steps []Step
	// Notes say in what existing objects differ without being others: options of tables and keyspaces.
	Notes []string
}

// Make compares the objects of a source with what a target has.
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

// compare says how an object that is there differs, "" if it does not.
func (p *Plan) compare(ctx context.Context, source, target *bulk.Reader, o, there Object) (string, error) {
	was, is := fields(o.Text), fields(there.Text)
	if was == is {
		return "", nil
	}
	switch o.Kind {
	case Keyspace:
		p.Notes = append(p.Notes, o.String()+" is there with other options")
		return "", nil
	case Table:
		how, err := columns(ctx, source, target, o.name())
		if err != nil || how != "" {
			return how, err
		}
		p.Notes = append(p.Notes, o.String()+" is there with other options: "+options(o.Text, there.Text))
		return "", nil
	case View:
		if before(was) == before(is) {
			return "", nil
		}
	}
	return "the source has " + was + ", here it is " + is, nil
}

// fields is a text with single spaces, and without what a terminal would obey.
func fields(s string) string { return plain(strings.Join(strings.Fields(s), " ")) }

// plain is a text of a server without control characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// before is the text of a view before its options.
func before(s string) string {
	s, _, _ = strings.Cut(s, " WITH ")
	return s
}

// options are those lines of the text of a table that differ.
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

// columns says how the columns of a table differ.
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
			how = append(how, "column "+cqltype.QuoteName(c.Name)+" is not here")
		case o != c:
			how = append(how, fmt.Sprintf("column %s is %s in the source and %s here", cqltype.QuoteName(c.Name), c, o))
		}
	}
	for _, c := range is.Columns {
		if _, ok := was.Column(c.Name); !ok {
			how = append(how, "column "+cqltype.QuoteName(c.Name)+" is not in the source")
		}
	}
	return strings.Join(how, "; "), nil
}

// Failed are the steps that are refused or differ.
func (p *Plan) Failed() (failed []Step) {
	for _, s := range p.Steps {
		if s.Verdict == Refused || s.Verdict == Differs {
			failed = append(failed, s)
		}
	}
	return failed
}

// Tables are the tables that are there, or are to be.
func (p *Plan) Tables() (names []bulk.Name) {
	for _, s := range p.Steps {
		if s.Kind == Table && s.Verdict != Refused && s.Verdict != Differs {
			names = append(names, s.name())
		}
	}
	return names
}

// Existing has the plan make nothing: tables that are not there are refused, other objects do not matter.
func (p *Plan) Existing() {
	var steps []Step
	for _, s := range p.Steps {
		if s.Kind != Table {
			continue
		}
		if s.Verdict == Create {
			s.Verdict, s.Reason = Refused, "it is not here, and nothing is to be made"
		}
		steps = append(steps, s)
	}
	p.Steps = steps
}
