// SPDX-License-Identifier: Apache-2.0

package parser

// Select is the SELECT statement.
type Select struct {
	JSON     bool
	Distinct bool
	// Selectors is empty for SELECT *.
	Selectors []Selector
	Table     QualifiedName
	Where     []Relation
	// GroupBy holds *Column terms, or function calls with column and constant arguments (Cassandra 4.1).
	GroupBy []Term
	OrderBy []Ordering
	// PerPartitionLimit and Limit are integer *Constant terms, *Marker terms, or nil.
	PerPartitionLimit Term
	Limit             Term
	AllowFiltering    bool
	// Timeout is the value of USING TIMEOUT. See Using.Timeout.
	Timeout Term
}

// Selector is one result column of a SELECT.
type Selector struct {
	Term Term
	// If the selector has no alias, Alias.Name is empty.
	Alias Ident
}

// Ordering is one column of ORDER BY. ANN is the vector in `c ANN OF vector` (Cassandra 5.0), or nil.
type Ordering struct {
	Column     Ident
	Descending bool
	ANN        Term
}

// Use is the statement USE keyspace.
type Use struct{ Keyspace Ident }

func (*Select) statement() {}
func (*Use) statement()    {}
