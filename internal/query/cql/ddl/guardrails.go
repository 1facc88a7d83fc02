// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
)

// checkGuardrails checks a change against the guardrails and removes ignored properties from the change. It uses the
// schema of this node, so concurrent changes by two clients may exceed a limit.
func checkGuardrails(change schema.Change, s *schema.Schema, g *guardrail.Check) error {
	if !g.On() {
		return nil
	}
	switch c := change.(type) {
	case *schema.CreateKeyspace:
		if s.Keyspace(c.Name) == nil {
			if err := g.NewKeyspace(c.Name, 1+countKeyspaces(s)); err != nil {
				return err
			}
		}
		return checkReplicationGuardrails(c.Name, c.Properties, g)
	case *schema.AlterKeyspace:
		return checkReplicationGuardrails(c.Name, c.Properties, g)
	case *schema.DropKeyspace:
		return g.DropKeyspace()
	case *schema.CreateTable:
		return checkTableGuardrails(c, s, g)
	case *schema.AlterTable:
		return checkAlterGuardrails(c, s, g)
	case *schema.DropTable:
		return g.DropTable()
	case *schema.CreateView:
		n := 1
		if ks := s.Keyspace(c.BaseKeyspace); ks != nil {
			n += len(ks.ViewsOf(c.Base))
		}
		return g.NewView(c.Name, c.Base, n)
	case *schema.CreateType:
		for _, f := range c.Fields {
			if err := checkVectorGuardrails(f.Name, f.Type, g); err != nil {
				return err
			}
		}
		return g.Fields(c.Name, len(c.Fields))
	case *schema.AlterType:
		if ks := s.Keyspace(c.Keyspace); c.Add != nil && ks != nil && ks.Types[c.Name] != nil {
			return g.Fields(c.Name, len(ks.Types[c.Name].Fields)+1)
		}
	case *schema.CreateIndex:
		n := 1
		if t := s.Table(c.Keyspace, c.Table); t != nil {
			n += len(t.ShownIndexes())
		}
		return g.NewIndex(c.Name, c.Table, n)
	}
	return nil
}

func isSystem(keyspace string) bool {
	return schema.IsLocalSystem(keyspace) || schema.IsVirtualSystem(keyspace) || schema.IsReplicatedSystem(keyspace)
}

func countKeyspaces(s *schema.Schema) (n int) {
	for ks := range s.All() {
		if !isSystem(ks.Name) {
			n++
		}
	}
	return n
}

func countTables(s *schema.Schema) (n int) {
	for ks := range s.All() {
		if !isSystem(ks.Name) {
			n += len(ks.Tables)
		}
	}
	return n
}

func checkTableGuardrails(c *schema.CreateTable, s *schema.Schema, g *guardrail.Check) error {
	if c.CompactStorage {
		if err := g.Compact(); err != nil {
			return err
		}
	}
	if s.Table(c.Keyspace, c.Name) == nil {
		if err := g.NewTable(c.Name, 1+countTables(s)); err != nil {
			return err
		}
	}
	if err := g.Columns(c.Name, len(c.Columns)); err != nil {
		return err
	}
	if err := checkColumnGuardrails(c.Columns, g); err != nil {
		return err
	}
	return checkPropertyGuardrails(&c.Properties, "0", g)
}

func checkAlterGuardrails(c *schema.AlterTable, s *schema.Schema, g *guardrail.Check) error {
	t := s.Table(c.Keyspace, c.Name)
	switch {
	case c.Op == schema.SetOptions:
		ttl := ""
		if t != nil {
			ttl = strconv.Itoa(int(t.Options.DefaultTTL))
		}
		return checkPropertyGuardrails(&c.Properties, ttl, g)
	case c.Op == schema.DropCompactStorage:
		return nil
	}
	if err := g.AlterColumns(); err != nil {
		return err
	}
	if err := checkColumnGuardrails(c.Add, g); err != nil {
		return err
	}
	if c.Op == schema.AddColumns && t != nil {
		return g.Columns(c.Name, len(t.ByName)+len(c.Add))
	}
	return nil
}

// checkColumnGuardrails checks the types of new columns.
func checkColumnGuardrails(columns []schema.ColumnSpec, g *guardrail.Check) error {
	for i := range columns {
		if err := checkVectorGuardrails(columns[i].Name, columns[i].Type, g); err != nil {
			return err
		}
	}
	return nil
}

// checkVectorGuardrails checks the vectors in a type.
func checkVectorGuardrails(name string, t *schema.TypeSpec, g *guardrail.Check) error {
	if t.Kind == cqltype.Vector {
		if err := g.Dimensions(name, t.Dimension); err != nil {
			return err
		}
	}
	for _, p := range t.Params {
		if err := checkVectorGuardrails(name, p, g); err != nil {
			return err
		}
	}
	return nil
}

// checkPropertyGuardrails checks the options of a table. If the options do not set the default TTL, ttl is the default
// TTL.
func checkPropertyGuardrails(given *[]schema.Property, ttl string, g *guardrail.Check) error {
	var names []string
	for _, p := range *given {
		names = append(names, p.Name)
	}
	ignored, err := g.Properties(names)
	if err != nil {
		return err
	}
	if ignored != nil {
		*given = slices.DeleteFunc(slices.Clone(*given), func(p schema.Property) bool {
			return slices.Contains(ignored, p.Name)
		})
	}
	windows := false
	for _, p := range *given {
		switch p.Name {
		case "compression":
			if strings.EqualFold(entry(p, "enabled"), "false") || p.IsMap && len(p.Map) == 0 {
				if err := g.Uncompressed(); err != nil {
					return err
				}
			}
		case "compaction":
			windows = strings.HasSuffix(entry(p, "class"), "TimeWindowCompactionStrategy")
		case "default_time_to_live":
			ttl = p.Value
		}
	}
	if windows && ttl == "0" {
		return g.WindowsWithoutTTL()
	}
	return nil
}

func entry(p schema.Property, key string) string {
	for _, e := range p.Map {
		if e.Key == key {
			return e.Value
		}
	}
	return ""
}

func checkReplicationGuardrails(keyspace string, given []schema.Property, g *guardrail.Check) error {
	for _, p := range given {
		if p.Name != "replication" {
			continue
		}
		if strings.HasSuffix(entry(p, "class"), "SimpleStrategy") {
			if err := g.SimpleStrategy(); err != nil {
				return err
			}
		}
		for _, e := range p.Map {
			n, err := strconv.ParseInt(e.Value, 10, 64)
			if err != nil {
				continue // the class, or an invalid value that a later check rejects
			}
			if err := g.ReplicationFactor(keyspace, n); err != nil {
				return err
			}
		}
	}
	return nil
}
