// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Select returns the tables to restore. The parameter what is the name of a keyspace, or of a table in the form ks.t.
// If what is empty, Select returns all tables. The parameter as is the new name. If as is empty, the original name
// remains. Views are restored with their tables.
func Select(m *archive.Manifest, what, as string) ([]archive.RestoredTable, error) {
	keyspace, table, one := strings.Cut(what, ".")
	asKeyspace, asTable, asOne := strings.Cut(as, ".")
	switch {
	case what == "" && as != "":
		return nil, errors.New("--as requires exactly one keyspace or table: specify it")
	case as != "" && one != asOne:
		return nil, fmt.Errorf("cannot rename %s to %s: a keyspace must be renamed to a keyspace, and a table to a "+
			"table", what, as)
	case as == "":
		asKeyspace, asTable = keyspace, table
	}
	var out []archive.RestoredTable
	for _, t := range m.Tables {
		if schema.IsSystem(t.Keyspace) || what != "" && t.Keyspace != keyspace || one && t.Name != table {
			continue
		}
		r := archive.RestoredTable{Keyspace: t.Keyspace, Name: t.Name, NewKeyspace: t.Keyspace, NewName: t.Name}
		if what != "" {
			r.NewKeyspace = asKeyspace
		}
		if one {
			r.NewName = asTable
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		if what == "" {
			return nil, errors.New("the backup contains no tables")
		}
		return nil, fmt.Errorf("the backup does not contain %s", what)
	}
	return out, nil
}
