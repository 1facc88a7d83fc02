// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

var specKinds = map[parser.TypeKind]cqltype.Kind{
	parser.ListType: cqltype.List, parser.SetType: cqltype.Set, parser.MapType: cqltype.Map,
	parser.TupleType: cqltype.Tuple, parser.VectorType: cqltype.Vector,
	parser.UserType: cqltype.UDT,
}

// TypeSpec converts a parsed type to a schema.TypeSpec. It does not check whether user-defined types exist.
func TypeSpec(t *parser.TypeName) (*schema.TypeSpec, error) {
	switch t.Kind {
	case parser.NativeType:
		native := cqltype.ByName(t.Name)
		if native == nil {
			return nil, dberr.Syntaxf("unknown type %s", t.Name)
		}
		return &schema.TypeSpec{Kind: native.Kind}, nil
	case parser.CustomType:
		return customType(t.Name)
	}
	spec := &schema.TypeSpec{Kind: specKinds[t.Kind], Frozen: t.Frozen, Keyspace: t.User.Keyspace.Name,
		Name: t.User.Name.Name, Dimension: t.Dimension}
	for _, p := range t.Params {
		param, err := TypeSpec(p)
		if err != nil {
			return nil, err
		}
		spec.Params = append(spec.Params, param)
	}
	return spec, nil
}

const marshalPackage = "org.apache.cassandra.db.marshal."

// customType returns the native type of a Java class. It does not support other classes.
func customType(class string) (*schema.TypeSpec, error) {
	full := class
	if !strings.Contains(class, ".") {
		full = marshalPackage + class
	}
	for k := cqltype.Ascii; k <= cqltype.Varint; k++ {
		if native := cqltype.Native(k); native != nil && native.JavaClass() == full {
			return &schema.TypeSpec{Kind: k}, nil
		}
	}
	return nil, dberr.Syntaxf("Error setting type %s: Unable to find abstract-type class '%s'", class, full)
}

// ResolveType resolves a type of a statement in keyspace ks. If ks is nil, user-defined types are not found.
func ResolveType(t *parser.TypeName, ks *schema.Keyspace) (*cqltype.Type, error) {
	spec, err := TypeSpec(t)
	if err != nil {
		return nil, err
	}
	if ks == nil {
		return spec.Bind("", nil)
	}
	return spec.Bind(ks.Name, ks.Types)
}
