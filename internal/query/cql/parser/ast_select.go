// SPDX-License-Identifier: Apache-2.0

package parser

// Select is SELECT.
type Select struct {
	JSON     bool
	Distinct bool
	// Selectors is empty for SELECT *.
	Selectors []Selector
	Table     QualifiedName
	Where     []Relation
	// GroupBy holds *Column terms, or functions of columns and constants (Cassandra 4.1).
	GroupBy []Term
	OrderBy []Ordering
	// PerPartitionLimit and Limit are nil, an integer *Constant, or a *Marker.
	PerPartitionLimit Term
	Limit             Term
	AllowFiltering    bool
	// Timeout is the value of USING TIMEOUT, as in Using.
	Timeout Term
}

// Selector is one result column of a SELECT.
type Selector struct {
	Term Term
	// Alias.Name is empty if there is no alias.
	Alias Ident
}

// Ordering is one part of ORDER BY. ANN is the vector of `c ANN OF vector` (Cassandra 5.0), or nil.
type Ordering struct {
	Column     Ident
	Descending bool
	ANN        Term
}

// Use is USE keyspace.
type Use struct{ Keyspace Ident }

func (*Select) statement() {}
func (*Use) statement()    {}
