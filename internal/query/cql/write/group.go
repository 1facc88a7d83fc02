// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// group holds the changes of an execution to one logical partition.
type group struct {
	// x is the execution that receives the leader's decision.
	x       *Execution
	masks   expr.Masks
	table   *schema.Table
	key     []byte
	token   token.Token
	dropped []cqltype.Dropped
	ops     []command.Op

	// The following fields are the parts of the command that the leader resolves. rows holds the rows to which
	// conditions and updates refer. refs maps row names to indexes in rows.
	rows       []command.RowRef
	refs       map[string]int
	conditions []command.Condition
	updates    []command.Update
	// checked holds the rows with conditions in order of appearance. static is the index of the static row in rows, or
	// -1 if the result does not contain the static row. statics holds the static columns of the result. If the
	// execution writes static columns, the result contains all static columns.
	checked     []checkedRow
	static      int
	statics     []*schema.Column
	conditional command.Conditional
	decision    *command.CASResult
}

// checkedRow is a row with conditions. row is the index of the row in group.rows.
type checkedRow struct {
	row     int
	exists  exists
	columns bool
}

// groupMapMin is the minimum number of groups for which groupSet uses a map.
const groupMapMin = 16

// groupSet holds the groups of an execution. The memory of the groups is reused.
type groupSet struct {
	list []group // only the first used elements contain groups
	used int
	// byKey maps partition keys to indexes in list. It is used only for a large number of groups.
	byKey map[string]int
}

// begin removes all groups.
func (s *groupSet) begin() {
	s.used = 0
	clear(s.byKey)
}

// reset removes the references of the groups.
func (s *groupSet) reset() {
	for i := range s.all() {
		s.list[i].reset()
	}
}

// all returns the groups.
func (s *groupSet) all() []group { return s.list[:s.used] }

// get returns the group of a partition key. It retains the key.
func (s *groupSet) get(p *Plan, key []byte) *group {
	if i, ok := s.find(p.table.ID, key); ok {
		return &s.list[i]
	}
	if s.used == len(s.list) {
		s.list = append(s.list, group{})
	}
	g := &s.list[s.used]
	s.used++
	g.masks, g.table, g.key, g.token, g.dropped = p.result.masks, p.table, key, p.table.Token(key), p.dropped
	g.static = -1
	return g
}

func (s *groupSet) find(table uint32, key []byte) (int, bool) {
	if s.used < groupMapMin {
		for i := range s.all() {
			if g := &s.list[i]; g.table.ID == table && bytes.Equal(g.key, key) {
				return i, true
			}
		}
		return 0, false
	}
	if s.byKey == nil {
		s.byKey = map[string]int{}
	}
	for i := len(s.byKey); i < s.used; i++ {
		g := &s.list[i]
		s.byKey[groupName(g.table.ID, g.key)] = i
	}
	i, ok := s.byKey[groupName(table, key)]
	return i, ok
}

func groupName(table uint32, key []byte) string {
	name := append(make([]byte, 0, 4+len(key)), byte(table), byte(table>>8), byte(table>>16), byte(table>>24))
	return string(append(name, key...))
}

// reset empties a group but keeps the memory.
func (g *group) reset() {
	clear(g.ops)
	*g = group{ops: g.ops[:0]}
}

func (g *group) mutation(who fairshare.Principal) command.Mutation {
	return command.Mutation{Table: g.table.ID, Token: g.token, Key: g.key, Ops: g.ops, SchemaVersion: g.table.Revision,
		Principal: who}
}

// needsLeader reports whether the leader must resolve the group because of conditions, updates, or the change log.
func (g *group) needsLeader() bool { return len(g.rows) > 0 || g.table.Logged() && len(g.ops) > 0 }

// logOf returns the change log settings of a table, or nil if the table has no change log.
func logOf(t *schema.Table) *command.ChangeLog {
	if !t.Logged() {
		return nil
	}
	return &command.ChangeLog{Keep: t.Options.Retention()}
}

// rowRef returns the index of a row among the rows that the leader reads.
func (g *group) rowRef(static bool, clustering []byte) int {
	name := "s"
	if !static {
		name = "r" + string(clustering)
	}
	if i, ok := g.refs[name]; ok {
		return i
	}
	if g.refs == nil {
		g.refs = map[string]int{}
	}
	ref := command.RowRef{Static: static}
	if !static {
		ref.Clustering = clustering
	}
	g.rows = append(g.rows, ref)
	g.refs[name] = len(g.rows) - 1
	return len(g.rows) - 1
}

// prepare sets the command for the leader.
func (g *group) prepare(x *changes, who fairshare.Principal, serial dberr.Consistency) {
	g.conditional = command.Conditional{Mutation: g.mutation(who), Rows: g.rows, Conditions: g.conditions,
		Updates: g.updates, Now: x.now, Dropped: g.dropped, Log: logOf(g.table)}
	if len(g.conditions) == 0 {
		return
	}
	g.conditional.Serial = serial
	if slices.ContainsFunc(g.checked, func(c checkedRow) bool { return !g.rows[c.row].Static }) {
		return
	}
	// As in Cassandra, the result of conditions on only static columns contains a row of the partition. If the
	// execution does not write regular columns, regular columns are not read, and only rows with a marker are found.
	g.conditional.First = command.FirstMarked
	if x.regular {
		g.conditional.First = command.FirstRow
	}
}

// Done implements command.Completion.
func (g *group) Done(o command.Outcome) {
	g.decision = o.CAS
	g.x.Done(o)
}

// staticConditions reports whether all conditions of a plan refer to static columns.
func (p *Plan) staticConditions() bool {
	return len(p.conditions) > 0 && !slices.ContainsFunc(p.conditions, func(c condition) bool {
		return c.column.Kind != schema.Static
	})
}

// addConditions adds the conditions of a plan for a row.
func (x *changes) addConditions(p *Plan, t *target) error {
	g := t.group
	x.regular, x.static = x.regular || p.regular, x.static || p.static
	static := !p.writesRows || p.staticConditions()
	c := checkedRow{row: g.rowRef(static, t.clustering), exists: p.exists, columns: len(p.conditions) > 0}
	// As in Cassandra, the result contains all static columns if the execution writes static columns. Otherwise, the
	// result contains only the static columns of conditions.
	if x.static {
		g.static = g.rowRef(true, nil)
	}
	for i := range p.conditions {
		n := c.row
		if column := p.conditions[i].column; column.Kind == schema.Static {
			n = g.rowRef(true, nil)
			g.static, g.statics = n, append(g.statics, column)
		}
		bound, err := p.conditions[i].eval(n, t.b)
		if err != nil {
			return err
		}
		g.conditions = append(g.conditions, bound)
	}
	if p.exists != mayExist {
		op := command.Exists
		if p.exists == mustNotExist {
			op = command.NotExists
		}
		g.conditions = append(g.conditions, command.Condition{Row: c.row, Operator: op})
	}
	return g.check(c)
}

// check records each row with conditions only once. It rejects contradictory conditions.
func (g *group) check(c checkedRow) error {
	i := slices.IndexFunc(g.checked, func(have checkedRow) bool { return have.row == c.row })
	if i < 0 {
		g.checked = append(g.checked, c)
		return nil
	}
	have := &g.checked[i]
	switch {
	case have.exists != c.exists && have.exists != mayExist && c.exists != mayExist:
		return dberr.Invalidf("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
	case have.columns && c.exists != mayExist || c.columns && have.exists != mayExist:
		kind := "NOT EXISTS" // like Cassandra, the error contains the clause of the first statement
		if c.exists == mustExist {
			kind = "EXISTS"
		}
		return dberr.Invalidf("Cannot mix IF conditions and IF %s for the same row", kind)
	}
	have.columns = have.columns || c.columns
	return nil
}

// found returns the row that the leader has found, or nil.
func (g *group) found(i int) *row.Row {
	if i < 0 || g.decision == nil || i >= len(g.decision.Found) {
		return nil
	}
	if r := g.decision.Found[i]; r != nil && r.Exists() {
		return r
	}
	return nil
}
