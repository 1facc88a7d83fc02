// SPDX-License-Identifier: Apache-2.0

package parser

// Transaction is BEGIN TRANSACTION .. COMMIT TRANSACTION, as in Cassandra's CEP-15. Its words are no keywords: they are
// names everywhere else. Inside, a name.column in a term is a *Field of a *Column: a reference to what a LET has read.
type Transaction struct {
	Lets []Let
	// Select is the SELECT of a table and Returns the SELECT of references, which has no FROM: at most one of them.
	Select  *Select
	Returns []Selector
	Steps   []Step
}

// Let is LET name = (SELECT ..).
type Let struct {
	Name   Ident
	Select *Select
}

// Step is IF conditions THEN statements END IF, or, without conditions, statements that are carried out in any case.
// Statements are *Insert, *Update and *Delete, at least one.
type Step struct {
	Conditions []Comparison
	Statements []Statement
}

// Comparison is one condition of a Step; they are joined by AND. Right is nil for IsNull and IsNotNull, where Left may
// also be a *Column: the row of a LET as a whole.
type Comparison struct {
	Left  Term
	Op    Operator
	Right Term
}

func (*Transaction) statement() {}

// Tables reports whether a condition holds for the names of all tables.
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

// ModifiedTable is the table of an *Insert, *Update or *Delete.
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
