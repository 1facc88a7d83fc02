// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// The functions in this file reject unsupported statements. For a statement that creates an object, the error contains
// the name of the feature. For a statement that alters or drops an object, the error states that the object does not
// exist.

const (
	noTriggers = "Triggers are not supported"
)

// isUnsupported reports whether a statement is not supported.
func isUnsupported(stmt parser.Statement) bool {
	switch stmt.(type) {
	case *parser.CreateTrigger, *parser.DropTrigger:
		return true
	}
	return false
}

// unsupportedError returns the error for an unsupported statement. For DROP .. IF EXISTS, it returns nil, because the
// statement has no effect.
func unsupportedError(stmt parser.Statement, session string, s *schema.Schema) error {
	switch st := stmt.(type) {
	case *parser.CreateTrigger:
		return unsupportedCreate(st.Table, session, s, noTriggers)
	case *parser.DropTrigger:
		return missingError("Trigger", parser.QualifiedName{Keyspace: st.Table.Keyspace, Name: st.Name}, session,
			st.IfExists)
	}
	return errors.New("not a DDL statement")
}

func unsupportedCreate(name parser.QualifiedName, session string, s *schema.Schema, text string) error {
	ks, err := keyspaceOf(name, session)
	switch {
	case err != nil:
		return err
	case schema.IsLocalSystem(ks):
		return dberr.Invalidf("System keyspace '%s' is not user-modifiable", ks)
	case schema.IsVirtualSystem(ks):
		return dberr.Invalidf("Virtual keyspace '%s' is not user-modifiable", ks)
	case s.Keyspace(ks) == nil:
		return dberr.Invalidf("Keyspace '%s' doesn't exist", ks)
	}
	return &dberr.Invalid{Message: text}
}

func missingError(what string, name parser.QualifiedName, session string, ifExists bool) error {
	ks, err := keyspaceOf(name, session)
	if err != nil || ifExists {
		return err
	}
	return dberr.Invalidf("%s '%s.%s' doesn't exist", what, ks, name.Name.Name)
}
