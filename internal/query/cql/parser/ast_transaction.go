// SPDX-License-Identifier: Apache-2.0

package parser

// Transaction is BEGIN TRANSACTION .. COMMIT TRANSACTION, as in Cassandra's CEP-15. Its words are not keywords, so they
// are valid names in other statements. In a transaction, name.column in a term is a *Field of a *Column. It refers to a
// row that a LET has read.
type Transaction struct {
	Lets []Let
	// Select is the SELECT of a table. Returns is the SELECT of references, which has no FROM clause. At most one of
	// Select and Returns is set.
	Select  *Select
	Returns []Selector
	Steps   []Step
}

// Let is LET name = (SELECT ..).
type Let struct {
	Name   Ident
	Select *Select
}

// Step is either IF conditions THEN statements END IF or a list of statements without conditions. Statements without
// conditions are always executed. Statements holds at least one *Insert, *Update, or *Delete.
type Step struct {
	Conditions []Comparison
	Statements []Statement
}

// Comparison is one condition of a Step. Conditions are joined by AND. Right is nil for IsNull and IsNotNull. In this
// case, Left may be a *Column, which refers to the whole row of a LET.
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
