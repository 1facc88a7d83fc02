// SPDX-License-Identifier: Apache-2.0

package parser

// DescribeKind is the kind of a DESCRIBE.
type DescribeKind uint8

// The kinds of DESCRIBE.
const (
	DescribeCluster DescribeKind = iota + 1
	// DescribeSchema is DESCRIBE SCHEMA, with Full for DESCRIBE FULL SCHEMA.
	DescribeSchema
	DescribeKeyspaces
	// DescribeKeyspace is DESCRIBE [ONLY] KEYSPACE [name]. Without a name, the statement describes the session's
	// keyspace.
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
	// DescribeGeneric is DESCRIBE name or DESCRIBE keyspace.name. The name is looked up as a keyspace, table, view, and
	// index, in this order.
	DescribeGeneric
)

// Describe is DESCRIBE (DESC). Name is empty if the kind has no name. The name of a keyspace is in Name.Name.
type Describe struct {
	Kind      DescribeKind
	Full      bool // set only for DescribeSchema
	Only      bool // set only for DescribeKeyspace
	Name      QualifiedName
	Internals bool
}

func (*Describe) statement() {}
