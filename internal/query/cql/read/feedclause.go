// SPDX-License-Identifier: Apache-2.0

package read

import (
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// These are the change feed modes. They are the values of cosmos_changefeed_mode().
const (
	modeLatest = "latest"
	modeAll    = "all"
)

// feedClause is the part of a WHERE clause that requests the change feed.
type feedClause struct {
	// start is the start time of the change feed. If the statement does not read the change feed, start is nil.
	start expr.Term
	// hasMode reports whether the clause contains cosmos_changefeed_mode(). allVersions reports whether the clause
	// requests all versions.
	hasMode, allVersions bool
}

// bind binds cosmos_changefeed_start_time() = value and cosmos_changefeed_mode() = 'all'.
func (f *feedClause) bind(r *parser.Relation, env *expr.Env) (err error) {
	name := r.Columns[0].Name
	again := f.start != nil
	if name == parser.ChangeFeedMode {
		again = f.hasMode
	}
	switch {
	case r.Op != parser.Equal:
		return dberr.Invalidf("%s() can only be restricted by an equality", name)
	case again:
		return dberr.Invalidf("%s() cannot be restricted by more than one relation", name)
	case env.Table.View != nil:
		return dberr.Invalidf("%s is a materialized view, which has no change feed. Read the change feed of its base table %s.%s",
			env.Table, env.Table.Keyspace, env.Table.View.Base)
	case env.Table.Container == nil && !env.Table.Logged():
		return dberr.Invalidf("Table %s has no change feed: enable it with ALTER TABLE %[1]s WITH cdc = true",
			env.Table)
	case env.Table.Container != nil && !env.Table.Container.Feed:
		return dberr.Invalidf("The container %s has no change feed: it was created before feature level 4. Create a new "+
			"container and copy the items to it", env.Table)
	}
	if name == parser.ChangeFeedMode {
		return f.bindMode(r.Value, env.Table)
	}
	f.start, err = expr.Bind(r.Value, expr.Receiver{Name: name + "()", Type: cqltype.Native(cqltype.Timestamp)},
		env)
	return err
}

// bindMode binds the mode. The mode determines the columns of the result.
func (f *feedClause) bindMode(value parser.Term, table *schema.Table) error {
	mode := ""
	if c, ok := value.(*parser.Constant); ok && c.Kind == parser.StringConstant {
		mode = strings.ToLower(c.Text)
	}
	f.hasMode, f.allVersions = true, mode == modeAll
	switch {
	case mode != modeAll && mode != modeLatest:
		return dberr.Invalidf("%s() must be the constant '%s' or '%s'", parser.ChangeFeedMode, modeLatest, modeAll)
	case f.allVersions && table.Container == nil && table.Options.Retention() == 0:
		return dberr.Invalidf("The change feed of %s has no retention: its cdc_retention_seconds is 0", table)
	case f.allVersions && table.Container != nil && table.Container.Keep == 0:
		return dberr.Invalidf("The container %s does not retain all versions and deletes: set a change feed policy "+
			"with a retention period", table)
	}
	return nil
}

// unsupportedInFeed returns the error for a clause that a change feed does not support.
func unsupportedInFeed(what string) error {
	return dberr.Invalidf("A SELECT of the change feed can be restricted only by the whole partition key or by a token range: "+
		"%s cannot be combined with %s()", what, parser.ChangeFeedStart)
}

// checkFeed rejects restrictions that a change feed does not support.
func (w *where) checkFeed() error {
	switch {
	case w.feed.start == nil && w.feed.hasMode:
		return dberr.Invalidf("%s() requires %s(), the start time of the change feed", parser.ChangeFeedMode,
			parser.ChangeFeedStart)
	case w.feed.start == nil:
	case w.pk.Has(relation.In) || w.pkNeedsFiltering():
		return unsupportedInFeed("a part of the partition key, or an IN,")
	case w.token != nil && !w.pk.Empty():
		return unsupportedInFeed("the partition key together with its token")
	case !w.clustering.Empty() || !w.others.Empty():
		return unsupportedInFeed("other columns")
	}
	return nil
}

// checkFeed rejects clauses that a change feed does not support.
func (p *Plan) checkFeed(stmt *parser.Select) error {
	if p.where.feed.start != nil && (stmt.JSON && p.where.feed.allVersions || p.distinct || p.groups.aggregated ||
		len(stmt.OrderBy) > 0 ||
		p.limits.rows != nil || p.limits.perPartition != nil) {
		return unsupportedInFeed("DISTINCT, GROUP BY, ORDER BY, an aggregate, a LIMIT, or JSON of all versions")
	}
	return nil
}

// describeFeed sets the result columns of a feed of all versions. The columns must match the output of emitImages.
func (p *Plan) describeFeed() {
	if !p.where.feed.allVersions {
		return
	}
	column := func(name string, t *cqltype.Type) Column {
		return Column{Keyspace: p.table.Keyspace, Table: p.table.Name, Name: name, Type: t}
	}
	columns := []Column{column("operation", cqltype.Native(cqltype.Text)),
		column("committed", cqltype.Native(cqltype.Timestamp))}
	if p.table.Container == nil {
		columns = append(columns, column("deleted_range", cqltype.Native(cqltype.Text)),
			column("deleted_timestamp", cqltype.Native(cqltype.Bigint)))
	}
	for _, name := range []string{"%s", "previous(%s)"} {
		for _, c := range p.columns {
			columns = append(columns, column(fmt.Sprintf(name, c.Name), c.Type))
		}
	}
	p.columns = columns
}
