// SPDX-License-Identifier: Apache-2.0

package read

import "github.com/ilion-db/ilion/internal/query/cql/relation"

// checkGuardrails checks the execution against the guardrails.
func (s *scan) checkGuardrails() error {
	p, w, g := s.plan, &s.plan.where, s.options.Guard
	if p.table.Virtual {
		return nil
	}
	if err := g.Page(p.table.Name, s.options.PageSize); err != nil {
		return err
	}
	if w.lookup.index != nil && w.keyRange {
		if err := g.WideIndexQuery(); err != nil {
			return err
		}
	}
	if !w.keyRange {
		n, err := relation.CountCombinations(w.pk.List, &s.bind)
		if err == nil {
			err = g.PartitionKeys(p.table.Name, n)
		}
		if err != nil {
			return err
		}
	}
	n, err := relation.CountCombinations(w.sliced, &s.bind)
	if err != nil {
		return err
	}
	return g.Combinations("clustering key", n)
}
