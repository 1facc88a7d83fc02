// SPDX-License-Identifier: Apache-2.0

package dbresource

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestStates checks random changes of a state. Each state must be equal to the state that is decoded from the changed
// records, and earlier states must not change. Numbers must not be assigned twice.
func TestStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, stored := &State{}, map[string][]byte{}
		used := map[uint32]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			next, before := s, dump(s)
			database := rapid.Uint32Range(1, 2).Draw(t, "database")
			id := strconv.Itoa(rapid.IntRange(1, 3).Draw(t, "id"))
			user := Parent{Kind: User, Database: database}
			switch owner := s.Find(user, id); {
			case owner == nil:
				next = s.With(&Resource{Parent: user, ID: id, Definition: []byte("{}")})
				number := next.Find(user, id).Number
				if used[number] {
					t.Fatalf("the number %d is assigned again", number)
				}
				used[number] = true
			case rapid.Bool().Draw(t, "permit"):
				p := Parent{Kind: Permission, Database: database, Owner: owner.Number}
				fresh := &Resource{Parent: p, ID: "p", Nonce: rapid.Uint64().Draw(t, "nonce")}
				if old := s.Find(p, "p"); old != nil {
					if fresh.Number = old.Number; s.Find(p, "q") == nil && rapid.Bool().Draw(t, "rename") {
						fresh.ID = "q"
					}
				}
				if next = s.With(fresh); fresh.Number == 0 {
					used[next.Find(p, fresh.ID).Number] = true
				}
			case rapid.Bool().Draw(t, "drop"):
				next = s.WithoutDatabase(database)
			default:
				next = s.Without(owner)
			}
			changed := Changed(s, next)
			for key, value := range changed {
				if value == nil {
					delete(stored, key)
				} else {
					stored[key] = value
				}
			}
			follower, err := s.WithRecords(changed)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := (&State{}).WithRecords(maps.Clone(stored))
			if err != nil {
				t.Fatal(err)
			}
			if got := dump(s); !reflect.DeepEqual(got, before) {
				t.Fatalf("an earlier state changed from %v to %v", before, got)
			}
			for _, other := range []*State{follower, loaded} {
				if !reflect.DeepEqual(dump(other), dump(next)) || other.last != next.last {
					t.Fatalf("the records contain %v, want %v", dump(other), dump(next))
				}
			}
			s = next
		}
	})
}

// dump returns the resources of a state as text, and checks that its lists contain the same resources.
func dump(s *State) (out []string) {
	listed := 0
	for p, list := range s.lists {
		for id, r := range list {
			if listed++; r.Parent != p || r.ID != id || s.byNumber[r.Number] != r {
				panic("a list contains another resource")
			}
		}
	}
	if listed != s.Len() {
		panic("the lists are incomplete")
	}
	for number, r := range s.byNumber {
		out = append(out, strconv.Itoa(int(number))+" "+string(r.Append(nil)))
	}
	slices.Sort(out)
	return out
}

// TestDecode checks that fields of later versions are kept, and that damaged records and unknown formats are rejected.
func TestDecode(t *testing.T) {
	r := &Resource{Parent: Parent{Permission, 7, 8}, ID: "p", Number: 9, At: -1, Revision: 300, Nonce: 1,
		Definition: []byte(`{}`),
		Grant:      Grant{Container: "c", Kind: "docs", Target: "i", Key: "k", KeyValues: 1, All: true}}
	b := r.Append(nil)
	later := append(append([]byte{}, b[:len(b)-1]...), 0x28, 1, 'x', 0) // field 20, which is optional
	got, err := Decode(9, later)
	if err != nil || !slices.Equal(got.Append(nil), later) {
		t.Errorf("%v: %x, want %x", err, got.Append(nil), later)
	}
	required := append(append([]byte{}, b[:len(b)-1]...), 0x29, 1, 'x', 0)
	format, kind := append([]byte{}, b...), append([]byte{}, b...)
	format[0], kind[1] = 2, 9
	for _, newer := range [][]byte{required, format, kind} {
		if _, err := Decode(9, newer); !errors.Is(err, feature.ErrNewer) {
			t.Errorf("%x: %v", newer, err)
		}
	}
	for i := range b {
		if _, err := Decode(9, b[:i]); err == nil {
			t.Errorf("the first %d bytes are accepted", i)
		}
	}
	for key, value := range map[string][]byte{Prefix + "x": b, Prefix: b, lastKey: {}, Prefix + "00000009": {1}} {
		if _, err := (&State{}).WithRecords(map[string][]byte{key: value}); err == nil {
			t.Errorf("%s = %x is accepted", key, value)
		}
	}
}
