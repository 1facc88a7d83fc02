// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// collectionFactories returns map_keys, map_values, and the functions that aggregate the elements of a list or set.
func collectionFactories() []*factory {
	one := func(name, text, wants string, takes func(*cqltype.Type) bool,
		build func(arg *cqltype.Type) (*cqltype.Type, func(v []byte) ([]byte, error))) *factory {
		return &factory{name: name, required: 1, params: []parameter{{text: text, takes: takes, wants: wants}},
			build: func(name string, args []*cqltype.Type) (*function, error) {
				result, call := build(args[0])
				return &function{name: name, args: args, result: result, pure: true,
					weigh: func(values [][]byte) int { return 2*len(values[0]) + partBytes*args[0].Count(values[0]) },
					call:  func(_ *Bindings, values [][]byte) ([]byte, error) { return call(values[0]) }}, nil
			}}
	}
	isList := anyOf(cqltype.List, cqltype.Set)
	isNumeric := func(t *cqltype.Type) bool { return isList(t) && numeric(t.Elems[0]) }
	folded := func(name, text, wants string, takes func(*cqltype.Type) bool,
		state func(elem *cqltype.Type) accumulator) *factory {
		return one(name, text, wants, takes, func(arg *cqltype.Type) (*cqltype.Type, func([]byte) ([]byte, error)) {
			return arg.Elems[0], func(v []byte) ([]byte, error) {
				s := state(arg.Elems[0])
				for _, e := range arg.Elements(v) {
					if e == nil {
						continue // [c, d] may contain null
					}
					if err := s.add(e); err != nil {
						return nil, err
					}
				}
				return s.result()
			}
		})
	}
	return []*factory{
		one("map_keys", "map", "a map argument", anyOf(cqltype.Map), mapKeys),
		one("map_values", "map", "a map argument", anyOf(cqltype.Map), mapValues),
		one("collection_count", "collection", "a collection argument",
			anyOf(cqltype.List, cqltype.Set, cqltype.Map), countElements),
		folded("collection_min", "set_or_list", "a set or list argument", isList,
			func(e *cqltype.Type) accumulator { return &extreme{typ: e, sign: -1} }),
		folded("collection_max", "set_or_list", "a set or list argument", isList,
			func(e *cqltype.Type) accumulator { return &extreme{typ: e, sign: 1} }),
		folded("collection_sum", "numeric_set_or_list", "a numeric set/list argument", isNumeric,
			func(e *cqltype.Type) accumulator { return newTotal(e, false)(nil) }),
		folded("collection_avg", "numeric_set_or_list", "a numeric set/list argument", isNumeric,
			func(e *cqltype.Type) accumulator { return newTotal(e, true)(nil) }),
	}
}

// numeric reports whether a type supports arithmetic.
func numeric(t *cqltype.Type) bool {
	return isInteger(t.Kind) || isFloating(t) || t.Kind == cqltype.Varint
}

func mapKeys(arg *cqltype.Type) (*cqltype.Type, func([]byte) ([]byte, error)) {
	result := cqltype.SetOf(arg.Elems[0]).Freeze()
	return result, func(v []byte) ([]byte, error) {
		var keys [][]byte
		for k := range arg.Entries(v) {
			keys = append(keys, k)
		}
		return result.AppendCollection(nil, keys...), nil
	}
}

func mapValues(arg *cqltype.Type) (*cqltype.Type, func([]byte) ([]byte, error)) {
	result := cqltype.ListOf(arg.Elems[1]).Freeze()
	return result, func(v []byte) ([]byte, error) {
		var values [][]byte
		for _, value := range arg.Entries(v) {
			values = append(values, value)
		}
		return result.AppendCollection(nil, values...), nil
	}
}

func countElements(arg *cqltype.Type) (*cqltype.Type, func([]byte) ([]byte, error)) {
	return tInt, func(v []byte) ([]byte, error) { return wrap(tInt, int64(arg.Count(v))), nil }
}
