// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"strings"

	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// refusal returns the reason why an object cannot be created, if the text of its statement already shows the reason.
// The text comes from the source and is executed with the permissions of the importing user. It must therefore contain
// only the statement that creates the object.
func refusal(o Object) string {
	st, markers, err := parser.Parse(o.Text)
	if err != nil {
		return "cannot parse its statement: " + err.Error()
	}
	keyspace, name, reason := o.Keyspace, o.Name, ""
	kind := ""
	qualified := func(k string, n parser.QualifiedName) { kind, keyspace, name = k, n.Keyspace.Name, n.Name.Name }
	replaces := false
	switch st := st.(type) {
	case *parser.CreateKeyspace:
		kind, keyspace = Keyspace, st.Name.Name
	case *parser.CreateType:
		qualified(Type, st.Name)
	case *parser.CreateTable:
		qualified(Table, st.Name)
	case *parser.CreateFunction:
		qualified(Function, st.Name)
		if replaces = st.OrReplace; st.Language != "java" && st.Language != "javascript" {
			reason = "unsupported function language " + st.Language + " here"
		}
	case *parser.CreateAggregate:
		qualified(Aggregate, st.Name)
		replaces = st.OrReplace
	case *parser.CreateIndex:
		kind, keyspace, name = Index, st.Table.Keyspace.Name, st.Name.Name.Name
		if class := st.Class; st.Custom && !strings.EqualFold(class, "sai") &&
			!strings.HasSuffix(class, "StorageAttachedIndex") {
			reason = "unsupported index class " + class + " here"
		}
	case *parser.CreateView:
		qualified(View, st.Name)
	default:
		return "this kind of object is not supported"
	}
	// The names of functions and aggregates include their arguments.
	same := name == o.Name || (kind == Function || kind == Aggregate) && strings.HasPrefix(o.Name, name)
	if kind != o.Kind || keyspace != o.Keyspace || !same || replaces || len(markers) > 0 {
		return "the source returned a statement for another object: " + fields(o.Text)
	}
	return reason
}
