// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// late reports whether an object is created after the rows have been copied.
func late(kind string) bool { return kind == Index || kind == View }

// Apply creates keyspaces, types, functions, aggregates, and tables, and determines which indexes and views of the
// created tables the target rejects. Apply records rejections in the plan, and stops at the first other error.
func (p *Plan) Apply(ctx context.Context, target *bulk.Reader) error {
	made := map[bulk.Name]bool{}
	if err := p.run(ctx, target, func(s *Step) bool { return !late(s.Kind) }, func(s *Step) {
		if s.Kind == Table {
			made[s.name()] = true
		}
	}); err != nil {
		return err
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !late(s.Kind) || s.Verdict != Create || !made[bulk.Name{Keyspace: s.Keyspace, Table: s.Table}] {
			continue
		}
		if err := s.try(ctx, target); err != nil {
			return err
		}
		if s.Verdict == Create {
			if err := carryOut(ctx, target, s.drop()); err != nil {
				return fmt.Errorf("cannot drop %s, which was created for a test: %w", s.Object, err)
			}
		}
	}
	return nil
}

// Late creates indexes and views.
func (p *Plan) Late(ctx context.Context, target *bulk.Reader) error {
	return p.run(ctx, target, func(s *Step) bool { return late(s.Kind) }, func(*Step) {})
}

// run creates the objects selected by takes. It retries rejected objects after other objects have been created,
// because types may depend on other types, and aggregates depend on functions.
func (p *Plan) run(ctx context.Context, target *bulk.Reader, takes func(*Step) bool, done func(*Step)) error {
	for again := true; again; {
		again = false
		refused := false
		for i := range p.Steps {
			s := &p.Steps[i]
			if s.Verdict != Create || !takes(s) {
				continue
			}
			err := s.try(ctx, target)
			switch {
			case err != nil:
				return err
			case s.Verdict == Refused:
				refused = true
			default:
				s.Verdict, again = Taken, true
				done(s)
			}
		}
		if again = again && refused; again {
			p.retry(takes)
		}
	}
	return nil
}

// retry marks rejected objects for another attempt.
func (p *Plan) retry(takes func(*Step) bool) {
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Verdict == Refused && takes(s) && refusal(s.Object) == "" {
			s.Verdict = Create
		}
	}
}

// try creates an object. If the target rejects it, the step becomes Refused. try returns an error only if the
// connection fails.
func (s *Step) try(ctx context.Context, target *bulk.Reader) error {
	err := carryOut(ctx, target, s.Text)
	if e, ok := errors.AsType[*cqlwire.Error](err); ok {
		if e.Code == cqlwire.CodeAlreadyExists { // the object was created, but the response was lost
			return nil
		}
		s.Verdict, s.Reason = Refused, e.Message
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Object, err)
	}
	return nil
}

func (s *Step) drop() string {
	return "DROP " + strings.ToUpper(strings.ReplaceAll(s.Kind, "_", " ")) + " " + cqltype.QuoteName(s.Keyspace) + "." +
		cqltype.QuoteName(s.Name)
}

// carryOut executes a statement that changes the schema.
func carryOut(ctx context.Context, target *bulk.Reader, text string) error {
	return target.Pages(ctx, text, func(*cqlwire.Result) error { return nil })
}
