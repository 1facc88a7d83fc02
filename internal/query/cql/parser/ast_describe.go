// SPDX-License-Identifier: Apache-2.0

package parser

// DescribeKind is the kind of a DESCRIBE statement.
type DescribeKind uint8

// These are the kinds of DESCRIBE statements.
const (
	DescribeCluster DescribeKind = iota + 1
	// DescribeSchema is DESCRIBE SCHEMA or DESCRIBE FULL SCHEMA.
	DescribeSchema
	DescribeKeyspaces
	// DescribeKeyspace is DESCRIBE [ONLY] KEYSPACE [name]. If the statement contains no name, it describes the
	// session's keyspace.
	DescribeKeyspace
	DescribeTables
	DescribeTable
	DescribeIndex
	DescribeView
	DescribeTypes
	DescribeType
	DescribeFunctions
	DescribeFunction
	DescribeAggregates
	DescribeAggregate
	// DescribeGeneric is DESCRIBE name or DESCRIBE keyspace.name. The name is looked up as a keyspace, a table, a view,
	// and an index, in this order.
	DescribeGeneric
)

// Describe is the DESCRIBE statement. If the kind has no name, Name is empty. Name.Name also holds the name of a
// keyspace.
type Describe struct {
	Kind      DescribeKind
	Full      bool // set only for DescribeSchema
	Only      bool // set only for DescribeKeyspace
	Name      QualifiedName
	Internals bool
}

func (*Describe) statement() {}
