// SPDX-License-Identifier: Apache-2.0

package parser

// Transaction is the statement BEGIN TRANSACTION .. COMMIT TRANSACTION, as defined in Cassandra's CEP-15. The words of
// its syntax are not keywords, so they are valid names in other statements. In a transaction, the term name.column is a
// *Field of a *Column. The term refers to a row that a LET has read.
type Transaction struct {
	Lets []Let
	// Select is a SELECT from a table. Returns is a SELECT of references without a FROM clause. At most one of Select
	// and Returns is set.
	Select  *Select
	Returns []Selector
	Steps   []Step
}

// Let is the clause LET name = (SELECT ..).
type Let struct {
	Name   Ident
	Select *Select
}

// Step is either IF conditions THEN statements END IF or a list of statements without conditions. Statements holds at
// least one *Insert, *Update, or *Delete.
type Step struct {
	Conditions []Comparison
	Statements []Statement
}

// Comparison is one condition of a Step. The conditions of a step are joined by AND. For IsNull and IsNotNull, Right is
// nil, and Left may be a *Column that refers to the whole row of a LET.
type Comparison struct {
	Left  Term
	Op    Operator
	Right Term
}

func (*Transaction) statement() {}

// Tables reports whether holds returns true for the name of every table in the transaction.
func (s *Transaction) Tables(holds func(QualifiedName) bool) bool {
	for _, l := range s.Lets {
		if l.Select == nil || !holds(l.Select.Table) {
			return false
		}
	}
	if s.Select != nil && !holds(s.Select.Table) {
		return false
	}
	for _, step := range s.Steps {
		for _, st := range step.Statements {
			if !holds(ModifiedTable(st)) {
				return false
			}
		}
	}
	return true
}

// ModifiedTable returns the table of an *Insert, *Update, or *Delete.
func ModifiedTable(s Statement) QualifiedName {
	switch s := s.(type) {
	case *Insert:
		return s.Table
	case *Update:
		return s.Table
	case *Delete:
		return s.Table
	}
	return QualifiedName{}
}
