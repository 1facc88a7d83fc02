// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration/rowdiff"
	"github.com/ilion-db/ilion/internal/tool/migration/schemadiff"
)

// Report is the result of a migration.
type Report struct {
	// Tally is the result of the last pass in this run or an earlier run.
	Tally Tally
	// Differences holds the first differences that a verification found, or the first rows that were kept because they
	// are newer.
	Differences []Difference
}

// migration is a migration in progress.
type migration struct {
	o      *Options
	ledger ledger
	plan   *schemadiff.Plan
	tables []*table
	// source and target are connections for queries.
	source, target *bulk.Reader
}

// Run performs a migration. If it returns an error, the report contains the progress. If the context ends while Run
// follows changes, Run returns no error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = func() *bulk.Progress { return &bulk.Progress{} }
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	m := &migration{o: &o, source: reader(&o.Source, 0), target: reader(&o.Target, 0),
		ledger: ledger{path: o.Checkpoint, errorPath: o.Errors}}
	defer m.source.Close()
	defer m.target.Close()
	resumed, err := m.ledger.open(fmt.Sprint(o.Source.Addrs), selectionText(&o), o.Restart)
	if err == nil {
		err = m.schema(ctx)
	}
	if err != nil || o.DryRun || o.SchemaOnly {
		return nil, err
	}
	if s := &m.ledger.state; resumed && s.Mode != "" {
		fmt.Fprintf(o.Out, "resuming pass %d\n", s.Pass)
	}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	rep, err := m.rows(ctx)
	if err = errors.Join(err, m.ledger.close()); err != nil && m.ledger.state.Mode != "" {
		err = fmt.Errorf("%w. Run the same command again to resume", err)
	}
	rep.Differences = m.ledger.state.Differences
	return rep, err
}

// schema plans, reports, and creates the schema.
func (m *migration) schema(ctx context.Context) error {
	o := m.o
	version, err := m.checkSource(ctx)
	if err != nil {
		return err
	}
	objects, err := schemadiff.Read(ctx, m.source, o.Select)
	if err != nil {
		return fmt.Errorf("cannot read the schema of the source: %w", err)
	}
	if m.plan, err = schemadiff.Make(ctx, m.source, m.target, objects); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "source %s, release %s\n", o.Source.Addrs[0], version)
	if err := m.say(ctx); err != nil || o.DryRun {
		return err
	}
	only := o.DataOnly || o.VerifyOnly
	if only {
		m.plan.Existing()
	}
	const before = "nothing was copied. Exclude them with --exclude, repair them, or skip all rejected ones with " +
		"--skip-refused"
	if err := m.check(before); err != nil || only {
		return err
	}
	if err := m.plan.Apply(ctx, m.target); err != nil {
		return err
	}
	if err := m.check(before); err != nil {
		return err
	}
	if o.Roles {
		if err := m.roles(ctx); err != nil {
			return err
		}
	}
	if o.SchemaOnly {
		return m.late(ctx)
	}
	return nil
}

// roles copies roles, and reports the rejected statements.
func (m *migration) roles(ctx context.Context) error {
	made, refused, err := schemadiff.Roles(ctx, m.source, m.target)
	if err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	fmt.Fprintf(m.o.Out, "roles: %d created\n", made)
	for _, text := range refused {
		fmt.Fprintf(m.o.Out, "note: rejected: %s\n", text)
	}
	return nil
}

// check returns an error if the plan cannot be executed completely. then is the advice for the user.
func (m *migration) check(then string) error {
	failed := m.plan.Failed()
	fatal := 0
	for _, s := range failed {
		if !m.o.SkipRefused || s.Kind == schemadiff.Table && s.Verdict == schemadiff.Differs {
			fatal++
		}
	}
	if fatal == 0 {
		return nil
	}
	list := ""
	for _, s := range failed {
		list += fmt.Sprintf("\n  %s: %s: %s", s.Object, s.Verdict, s.Reason)
	}
	return fmt.Errorf("cannot create %d schema objects; %s:%s", len(failed), then, list)
}

// say prints the plan. For a dry run, it prints the complete plan.
func (m *migration) say(ctx context.Context) error {
	created, taken := 0, 0
	for _, s := range m.plan.Steps {
		switch s.Verdict {
		case schemadiff.Create:
			created++
		case schemadiff.Taken:
			taken++
		}
		if !m.o.DryRun {
			continue
		}
		fmt.Fprintf(m.o.Out, "%-8s  %s", s.Verdict, s.Object)
		if s.Reason != "" {
			fmt.Fprintf(m.o.Out, ": %s", s.Reason)
		}
		if s.Kind == schemadiff.Table {
			e, err := estimate(ctx, m.source, bulk.Name{Keyspace: s.Keyspace, Table: s.Name})
			if err != nil {
				return err
			}
			fmt.Fprintf(m.o.Out, " (about %d logical partitions, %d MB)", e.partitions, e.bytes/1_000_000)
		}
		fmt.Fprintln(m.o.Out)
	}
	for _, n := range m.plan.Notes {
		fmt.Fprintf(m.o.Out, "note: %s\n", n)
	}
	fmt.Fprintf(m.o.Out, "schema: %d objects to create, %d exist, %d rejected or different\n", created, taken,
		len(m.plan.Failed()))
	return nil
}

// late creates indexes and views.
func (m *migration) late(ctx context.Context) error {
	if m.o.DataOnly || m.o.VerifyOnly {
		return nil
	}
	if err := m.plan.Late(ctx, m.target); err != nil {
		return err
	}
	return m.check("rows copied")
}

// open reads the descriptions of the tables, and divides new tables into ranges.
func (m *migration) open(ctx context.Context) error {
	known := map[bulk.Name]*tableState{}
	for _, t := range m.ledger.state.Tables {
		known[t.name()] = t
	}
	var states []*tableState
	for _, n := range m.plan.Tables() {
		t := &table{state: known[n]}
		for _, side := range []struct {
			r *bulk.Reader
			q **rowdiff.Query
		}{{m.target, &t.target}, {m.source, &t.source}} {
			c, err := side.r.Conn(ctx)
			if err != nil {
				return err
			}
			l, err := rowdiff.Describe(c, n)
			if err != nil {
				return err
			}
			if t.layout == nil {
				t.layout = l
			}
			if *side.q, err = l.Ask(c); err != nil {
				return err
			}
		}
		if t.state == nil {
			if err := m.newTable(ctx, t, n); err != nil {
				return err
			}
		}
		m.notes(t, n)
		m.tables, states = append(m.tables, t), append(states, t.state)
	}
	m.ledger.state.Tables = states
	return nil
}

// newTable divides a table into ranges. It also checks whether the table is empty in the target.
func (m *migration) newTable(ctx context.Context, t *table, n bulk.Name) error {
	e, err := estimate(ctx, m.source, n)
	if err != nil {
		return err
	}
	size := m.o.RangeBytes
	if size <= 0 {
		size = defaultRangeBytes
	}
	most := min(rangesMax, max(rangesMin, rangesAll/len(m.plan.Steps)))
	ranges := min(most, max(rangesMin, int(e.bytes/size)+1))
	c, err := m.target.Conn(ctx)
	if err != nil {
		return err
	}
	r, err := c.Query("SELECT " + bulk.QuoteAll(t.layout.Table.Names(bulk.Column.IsKey)) + " FROM " + n.String() +
		" LIMIT 1")
	if err != nil {
		return err
	}
	t.state = &tableState{Keyspace: n.Keyspace, Table: n.Table, Fresh: r.RowCount == 0,
		Ranges: make([]rangeState, ranges)}
	return nil
}

// notes reports the data of a table that cannot be copied exactly.
func (m *migration) notes(t *table, n bulk.Name) {
	if !t.source.Elements() {
		fmt.Fprintf(m.o.Out, "note: the source does not return timestamps of collection elements in %s: "+
			"they receive the newest timestamp of their row\n", n)
	}
	if !t.state.Fresh && !m.o.VerifyOnly {
		fmt.Fprintf(m.o.Out, "note: table %s was not empty: rows that exist only in the target are kept\n", n)
	}
}

// rows makes the passes.
func (m *migration) rows(ctx context.Context) (*Report, error) {
	o, rep := m.o, &Report{}
	var err error
	first := m.ledger.state.Mode
	if !o.VerifyOnly && !(o.Verify && first == modeVerify) {
		if rep.Tally, err = m.pass(ctx, modeCopy); err != nil {
			return rep, m.interrupted(ctx, err)
		}
	}
	if err := m.late(ctx); err != nil {
		return rep, err
	}
	switch {
	case o.Follow:
		return m.follow(ctx, rep)
	case o.VerifyOnly && o.Repair:
		if rep.Tally, err = m.pass(ctx, modeRepair); err != nil {
			return rep, err
		}
	case !o.VerifyOnly && !o.Verify:
		return rep, refusedOrKept(&rep.Tally)
	}
	if rep.Tally, err = m.pass(ctx, modeVerify); err != nil {
		return rep, err
	}
	if rep.Tally.Different > 0 {
		return rep, fmt.Errorf("%d rows differ", rep.Tally.Different)
	}
	fmt.Fprintf(o.Out, "equal: %d rows on both sides, digest %s\n", rep.Tally.Source, rep.Tally.SourceDigest)
	return rep, nil
}

func refusedOrKept(t *Tally) error {
	if t.Refused > 0 {
		return fmt.Errorf("%d rows were rejected", t.Refused)
	}
	return nil
}

// interrupted returns nil instead of an error if the migration ended only because the context was canceled during
// Follow.
func (m *migration) interrupted(ctx context.Context, err error) error {
	if !m.o.Follow || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	fmt.Fprintln(m.o.Out, "interrupted during a pass. Run the same command again to resume")
	return nil
}

// follow makes passes until the context ends. If requested, it stops when both sides are equal.
func (m *migration) follow(ctx context.Context, rep *Report) (*Report, error) {
	for {
		if m.o.UntilEqual && rep.Tally.Different == 0 {
			fmt.Fprintf(m.o.Out, "equal: a pass over %d rows found no difference, digest %s\n",
				rep.Tally.Source, rep.Tally.SourceDigest)
			return rep, nil
		}
		if t := &rep.Tally; m.o.UntilEqual && t.Written+t.Deleted == t.Refused && t.Refused+t.Kept > 0 {
			return rep, fmt.Errorf("%d rows still differ: %d were rejected, %d are newer in the target", t.Different,
				t.Refused,
				t.Kept)
		}
		select {
		case <-ctx.Done():
			return rep, nil
		case <-time.After(m.o.Pause):
		}
		t, err := m.pass(ctx, modeCopy)
		if err != nil {
			return rep, m.interrupted(ctx, err)
		}
		rep.Tally = t
	}
}

// pass makes one pass and reports the result.
func (m *migration) pass(ctx context.Context, mode string) (Tally, error) {
	p := &pass{o: m.o, ledger: &m.ledger, mode: mode, tables: m.tables, rows: bulk.Pace{Rate: m.o.Rate},
		bytes: bulk.Pace{Rate: m.o.ByteRate}}
	began := time.Now()
	t, err := p.run(ctx)
	if err != nil {
		return t, err
	}
	s := &m.ledger.state
	fmt.Fprintf(m.o.Out, "pass %d (%s): %d rows in the source, %d in the target before; %d written, %d deleted, %d "+
		"kept because "+
		"they are newer, %d rejected; %.1f s\n", s.Pass, mode, t.Source, t.Target, t.Written, t.Deleted, t.Kept,
		t.Refused, time.Since(began).Seconds())
	if mode == modeCopy {
		but := ""
		if t.Kept+t.Refused > 0 {
			but = ", except the kept and rejected rows"
		}
		fmt.Fprintf(m.o.Out, "the target contains the source as of %s%s\n", s.Begun.UTC().Format(time.RFC3339), but)
	}
	if mode == modeVerify {
		fmt.Fprintf(m.o.Out, "digests: source %s, target %s\n", t.SourceDigest, t.TargetDigest)
	}
	return t, nil
}
