// SPDX-License-Identifier: Apache-2.0

package dbresource

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// Max is the maximum number of resources in a cluster. Every node keeps all of them in memory.
const Max = 50_000

// State holds the resources of all databases. The zero value holds none.
type State struct {
	// last is the highest number that has been assigned.
	last     uint32
	byNumber map[uint32]*Resource
	lists    map[Parent]map[string]*Resource
}

// Len returns the number of resources.
func (s *State) Len() int { return len(s.byNumber) }

// ByNumber returns a resource by its number, or nil if it does not exist.
func (s *State) ByNumber(number uint32) *Resource { return s.byNumber[number] }

// Find returns a resource by its ID, or nil if it does not exist.
func (s *State) Find(p Parent, id string) *Resource { return s.lists[p][id] }

// All yields the resources of a parent in any order.
func (s *State) All(p Parent) iter.Seq[*Resource] { return maps.Values(s.lists[p]) }

// List returns the resources of a parent, sorted by their IDs.
func (s *State) List(p Parent) []*Resource {
	return slices.SortedFunc(s.All(p), func(a, b *Resource) int { return strings.Compare(a.ID, b.ID) })
}

// clone returns a copy of the state, whose lists are shared.
func (s *State) clone() *State {
	next := &State{last: s.last, byNumber: maps.Clone(s.byNumber), lists: maps.Clone(s.lists)}
	if next.byNumber == nil {
		next.byNumber, next.lists = map[uint32]*Resource{}, map[Parent]map[string]*Resource{}
	}
	return next
}

// With returns a state that contains r. If the number of r is 0, the state contains a copy of r with a new number.
// Otherwise, r replaces the resource with its number.
func (s *State) With(r *Resource) *State { return s.WithAll([]*Resource{r}) }

// WithAll works like With for several resources.
func (s *State) WithAll(all []*Resource) *State {
	if len(all) == 0 {
		return s
	}
	next := s.clone()
	copied := map[Parent]bool{}
	for _, r := range all {
		if r.Number == 0 {
			next.last++
			numbered := *r
			numbered.Number = next.last
			r = &numbered
		}
		if old := next.byNumber[r.Number]; old != nil {
			next.unlist(old, copied)
		}
		next.add(r, copied)
	}
	return next
}

// list returns the list of a parent for changes. copied contains the lists that are not shared with another state.
func (s *State) list(p Parent, copied map[Parent]bool) map[string]*Resource {
	if copied[p] {
		return s.lists[p]
	}
	list := maps.Clone(s.lists[p])
	if list == nil {
		list = map[string]*Resource{}
	}
	s.lists[p], copied[p] = list, true
	return list
}

func (s *State) add(r *Resource, copied map[Parent]bool) {
	s.byNumber[r.Number] = r
	s.list(r.Parent, copied)[r.ID] = r
}

// unlist removes a resource from its list.
func (s *State) unlist(r *Resource, copied map[Parent]bool) {
	list := s.list(r.Parent, copied)
	if list[r.ID] == r {
		delete(list, r.ID)
	}
	if len(list) == 0 {
		delete(s.lists, r.Parent)
		delete(copied, r.Parent)
	}
}

// Without returns a state without a resource and the permissions that belong to it.
func (s *State) Without(r *Resource) *State {
	return s.without(func(o *Resource) bool {
		return o == r || r.Kind == User && o.Kind == Permission && o.Owner == r.Number
	})
}

// WithoutDatabase returns a state without the resources of a database.
func (s *State) WithoutDatabase(number uint32) *State {
	return s.without(func(o *Resource) bool { return o.Database == number })
}

func (s *State) without(gone func(*Resource) bool) *State {
	var next *State
	copied := map[Parent]bool{}
	for number, r := range s.byNumber {
		if !gone(r) {
			continue
		}
		if next == nil {
			next = s.clone()
		}
		delete(next.byNumber, number)
		next.unlist(r, copied)
	}
	if next == nil {
		return s
	}
	return next
}

// Prefix is the prefix of the keys of records.
const Prefix = "dbresource/"

// lastKey is the key of the record with the highest number that has been assigned. The key of a resource ends with its
// number as 8 hexadecimal digits.
const lastKey = Prefix + "last"

func keyOf(number uint32) string { return fmt.Sprintf("%s%08x", Prefix, number) }

// Changed returns the records that differ between two states, by key. The value of a deleted record is nil.
func Changed(old, next *State) map[string][]byte {
	if old == next {
		return nil
	}
	changed := map[string][]byte{}
	if next.last != old.last {
		w := codec.Writer{format}
		w.Uint(uint64(next.last))
		w.EndFields()
		changed[lastKey] = w
	}
	for number, r := range next.byNumber {
		if old.byNumber[number] != r {
			changed[keyOf(number)] = r.Append(nil)
		}
	}
	for number := range old.byNumber {
		if next.byNumber[number] == nil {
			changed[keyOf(number)] = nil
		}
	}
	return changed
}

// WithRecords returns the state after changes of records. A nil value means that the record was deleted. Unchanged
// resources are shared.
func (s *State) WithRecords(records map[string][]byte) (*State, error) {
	if len(records) == 0 {
		return s, nil
	}
	next := s.clone()
	copied := map[Parent]bool{}
	var fresh []*Resource
	for key, value := range records {
		if key == lastKey {
			if err := next.decodeLast(value); err != nil {
				return nil, err
			}
			continue
		}
		number, err := strconv.ParseUint(strings.TrimPrefix(key, Prefix), 16, 32)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, ErrMalformed)
		}
		if old := next.byNumber[uint32(number)]; old != nil {
			delete(next.byNumber, old.Number)
			next.unlist(old, copied)
		}
		if value == nil {
			continue
		}
		r, err := Decode(uint32(number), value)
		if err != nil {
			return nil, fmt.Errorf("database resource %d: %w", number, err)
		}
		fresh = append(fresh, r)
	}
	for _, r := range fresh { // after all removals, because a resource may get the ID of a removed resource
		next.add(r, copied)
	}
	return next, nil
}

func (s *State) decodeLast(value []byte) error {
	if value == nil {
		s.last = 0
		return nil
	}
	if len(value) > 0 && value[0] > format {
		return &feature.Newer{What: "the number of database resources", Unit: "format", Has: uint64(value[0]),
			Newest: format}
	}
	v := codec.NewReader(value, ErrMalformed)
	_ = v.Byte()
	s.last = v.Uint32()
	for f := v.Field(0); f.Number != 0; f = v.Field(f.Number) {
		if f.Must {
			return &feature.Newer{What: "the number of database resources", Unit: "field", Has: f.Number}
		}
	}
	return v.End()
}
