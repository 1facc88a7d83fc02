// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the keys of records. The package comment describes them.
const (
	schemaPrefix    = "schema/"
	topologyKey     = "map"
	partitionPrefix = "map/"
	nodePrefix      = "node/"
	buildPrefix     = "build/"
	settingPrefix   = "setting/"
	historyPrefix   = "history/"
	proposalPrefix  = "proposal/"
	regionPrefix    = "region/"
	versionKey      = "version"
)

// Scan calls fn for each record of one state, in any order, and returns the version of this state. The arguments of fn
// are valid only during the call.
type Scan func(fn func(key, value []byte) error) (version uint64, err error)

// Load reads a state from the records.
func Load(scan Scan) (*State, error) { return Empty().reload(scan) }

// changed is the difference between two states. It contains the keys of changed records and the records of changed
// partitions. A nil record means that the partition was removed.
type changed struct {
	keys       []string
	partitions map[topology.PartitionID][]byte
}

// reload reads the next state. It does not decode unchanged records (MT2).
func (s *State) reload(scan Scan) (*State, error) {
	next := &State{records: make(map[string][]byte, len(s.records))}
	c := changed{partitions: map[topology.PartitionID][]byte{}}
	var record []byte
	same := map[topology.PartitionID]bool{}
	version, err := scan(func(key, value []byte) error {
		if len(key) == 0 || key[0] == 0 || string(key) == versionKey {
			return nil
		}
		if id, ok, err := partitionOf(key); err != nil {
			return err
		} else if ok {
			if p := s.Topology.Partition(id); p != nil {
				if record = topology.AppendPartition(record[:0], p); bytes.Equal(record, value) {
					same[id] = true
					return nil
				}
			}
			c.partitions[id] = append([]byte{}, value...)
			return nil
		}
		if old, ok := s.records[string(key)]; ok && bytes.Equal(old, value) {
			next.records[string(key)] = old
			return nil
		}
		next.records[string(key)] = append([]byte{}, value...)
		c.keys = append(c.keys, string(key))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the metadata: %w", err)
	}
	for key := range s.records {
		if _, ok := next.records[key]; !ok {
			c.keys = append(c.keys, key)
		}
	}
	for p := range s.Topology.All() {
		if _, ok := c.partitions[p.ID]; !ok && !same[p.ID] {
			c.partitions[p.ID] = nil
		}
	}
	next.Version = version
	return next.decode(s, c)
}

// partitionOf returns the partition to which a key belongs.
func partitionOf(key []byte) (id topology.PartitionID, ok bool, err error) {
	rest, ok := bytes.CutPrefix(key, []byte(partitionPrefix))
	if !ok {
		return 0, false, nil
	}
	if len(rest) != 8 {
		return 0, false, fmt.Errorf("key %q: %w", key, ErrMalformed)
	}
	return topology.PartitionID(binary.BigEndian.Uint64(rest)), true, nil
}

// applyChange returns the state after one change.
func (s *State) applyChange(version uint64, put []command.Record) (*State, error) {
	next := &State{Version: version, records: maps.Clone(s.records)}
	c := changed{partitions: map[topology.PartitionID][]byte{}}
	for _, r := range put {
		if id, ok, err := partitionOf(r.Key); err != nil {
			return nil, err
		} else if ok {
			c.partitions[id] = r.Value
			continue
		}
		key := string(r.Key)
		old, known := next.records[key]
		switch {
		case r.Value == nil && !known, r.Value != nil && known && bytes.Equal(old, r.Value):
			continue
		case r.Value == nil:
			delete(next.records, key)
		default:
			next.records[key] = r.Value
		}
		c.keys = append(c.keys, key)
	}
	return next.decode(s, c)
}

// decode completes a state from its records. c is the difference between s and next.
func (next *State) decode(s *State, c changed) (_ *State, err error) {
	slices.Sort(c.keys)
	changed := slices.Compact(c.keys)
	if next.Schema, err = s.nextSchema(next.records, changed); err != nil {
		return nil, fmt.Errorf("cannot load the schema: %w", err)
	}
	if next.Topology, err = s.nextTopology(next.records, changed, c.partitions); err != nil {
		return nil, fmt.Errorf("cannot load the topology: %w", err)
	}
	if next.Nodes, err = s.nextNodes(next.records, changed); err != nil {
		return nil, fmt.Errorf("cannot load the nodes: %w", err)
	}
	if next.Regions, err = s.nextRegions(next.records, changed); err != nil {
		return nil, fmt.Errorf("cannot load the regions: %w", err)
	}
	if next.Roles, err = s.nextRoles(next.records, changed); err != nil {
		return nil, fmt.Errorf("cannot load the roles: %w", err)
	}
	if next.Resources, err = s.Resources.WithRecords(under(next.records, changed, dbresource.Prefix)); err != nil {
		return nil, fmt.Errorf("cannot load the resources of databases: %w", err)
	}
	if next.History, err = s.nextHistory(next.records, changed); err != nil {
		return nil, fmt.Errorf("cannot load the history: %w", err)
	}
	next.loadRest(s, changed)
	return next, nil
}

// touches reports whether at least one changed key begins with the prefix.
func touches(changed []string, prefix string) bool {
	i, _ := slices.BinarySearch(changed, prefix)
	return i < len(changed) && strings.HasPrefix(changed[i], prefix)
}

func (s *State) nextTopology(records map[string][]byte, changed []string,
	partitions map[topology.PartitionID][]byte) (*topology.Snapshot, error) {
	header := records[topologyKey]
	if header == nil {
		return topology.New(), nil
	}
	if _, ok := slices.BinarySearch(changed, topologyKey); !ok && len(partitions) == 0 {
		return s.Topology, nil
	}
	return topology.Assemble(s.Topology, header, partitions)
}

func (s *State) nextNodes(records map[string][]byte, changed []string) ([]*Node, error) {
	if !touches(changed, nodePrefix) {
		return s.Nodes, nil
	}
	var nodes []*Node
	for _, key := range slices.Sorted(maps.Keys(records)) {
		name, ok := strings.CutPrefix(key, nodePrefix)
		if !ok {
			continue
		}
		id := topology.NodeID([]byte(name + strings.Repeat("\x00", 16))[:16])
		if len(name) != len(id) {
			return nil, fmt.Errorf("key %q: %w", key, ErrMalformed)
		}
		n := s.Node(id)
		if _, isNew := slices.BinarySearch(changed, key); isNew || n == nil {
			var err error
			if n, err = DecodeNode(id, records[key]); err != nil {
				return nil, fmt.Errorf("node %x: %w", id, err)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// nextRoles decodes the changed roles, CIDR groups, and identities.
func (s *State) nextRoles(records map[string][]byte, changed []string) (*access.State, error) {
	found := map[string][]byte{}
	for _, prefix := range access.Prefixes {
		maps.Copy(found, under(records, changed, prefix))
	}
	return s.Roles.WithRecords(found)
}

// under returns the changed records whose keys begin with a prefix. The value of a deleted record is nil.
func under(records map[string][]byte, changed []string, prefix string) map[string][]byte {
	var found map[string][]byte
	i, _ := slices.BinarySearch(changed, prefix)
	for ; i < len(changed) && strings.HasPrefix(changed[i], prefix); i++ {
		if found == nil {
			found = map[string][]byte{}
		}
		found[changed[i]] = records[changed[i]]
	}
	return found
}

// loadRest decodes builds and settings.
func (s *State) loadRest(old *State, changed []string) {
	s.Building, s.Builds, s.Settings = old.Building, old.Builds, old.Settings
	if touches(changed, buildPrefix) {
		s.Building, s.Builds = map[uint32]bool{}, map[uint32]*Build{}
		for key, value := range s.records {
			if text, ok := strings.CutPrefix(key, buildPrefix); ok && len(text) == 4 {
				id := binary.BigEndian.Uint32([]byte(text))
				s.Building[id] = true
				if b := DecodeBuild(value); b != nil {
					s.Builds[id] = b
				}
			}
		}
	}
	if touches(changed, settingPrefix) {
		s.Settings = map[string]string{}
		for key, value := range s.records {
			if name, ok := strings.CutPrefix(key, settingPrefix); ok {
				s.Settings[name] = string(value)
			}
		}
	}
}

// nextSchema decodes the changed objects. If a keyspace has changed, nextSchema decodes all tables of the keyspace,
// because tables refer to types of the keyspace.
func (s *State) nextSchema(records map[string][]byte, changed []string) (*schema.Schema, error) {
	if !touches(changed, schemaPrefix) {
		return s.Schema, nil
	}
	whole, partly := map[string]bool{}, map[string][]string{}
	functions := map[string]bool{} // keyspaces whose functions are decoded together
	for _, key := range changed {
		object, ok := strings.CutPrefix(key, schemaPrefix)
		if !ok {
			continue
		}
		if ks, ok := strings.CutPrefix(object, "keyspace/"); ok {
			whole[ks] = true
		} else if ks, table, ok := schema.TableOfObject(object); ok {
			partly[ks] = append(partly[ks], table)
		} else if ks, ok := schema.FunctionsOfObject(object); ok {
			functions[ks] = true
			if partly[ks] == nil {
				partly[ks] = []string{}
			}
		}
	}
	fresh, err := schema.FromObjects(func(yield func(string, []byte) bool) {
		if len(whole) == 0 {
			yieldChanged(records, changed, partly, functions, yield)
			return
		}
		for key, value := range records {
			object, ok := strings.CutPrefix(key, schemaPrefix)
			if ok && mustDecode(object, key, changed, whole, partly, functions) && !yield(object, value) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	next := *fresh
	next.Keyspaces = maps.Clone(s.Schema.Keyspaces)
	for ks := range whole {
		delete(next.Keyspaces, ks)
		if k := fresh.Keyspaces[ks]; k != nil {
			next.Keyspaces[ks] = k
		}
	}
	for ks, tables := range partly {
		if old := next.Keyspaces[ks]; old != nil && !whole[ks] {
			next.Keyspaces[ks] = withTables(old, fresh.Keyspaces[ks], tables)
			if f := fresh.Keyspaces[ks]; f != nil && functions[ks] {
				next.Keyspaces[ks].Functions = f.Functions
			}
		}
	}
	return &next, nil
}

// yieldChanged yields the changed objects and their keyspaces. It avoids reading all records of an unchanged keyspace,
// because a keyspace may contain thousands of tables.
func yieldChanged(records map[string][]byte, changed []string, partly map[string][]string, functions map[string]bool,
	yield func(string, []byte) bool) {
	for _, key := range changed {
		object, ok := strings.CutPrefix(key, schemaPrefix)
		if _, function := schema.FunctionsOfObject(object); function {
			continue // decoded together with the other objects of its keyspace
		}
		if value := records[key]; ok && value != nil && !yield(object, value) {
			return
		}
	}
	if len(functions) > 0 {
		for key, value := range records {
			object, _ := strings.CutPrefix(key, schemaPrefix)
			if ks, ok := schema.FunctionsOfObject(object); ok && functions[ks] && !yield(object, value) {
				return
			}
		}
	}
	objects := []string{"schema"} // the counters
	for ks := range partly {
		objects = append(objects, "keyspace/"+ks)
	}
	for _, object := range objects {
		if value := records[schemaPrefix+object]; value != nil && !yield(object, value) {
			return
		}
	}
}

// mustDecode reports whether an object must be decoded.
func mustDecode(object, key string, changed []string, whole map[string]bool, partly map[string][]string,
	functions map[string]bool) bool {
	if ks, ok := schema.FunctionsOfObject(object); ok {
		return whole[ks] || functions[ks]
	}
	if ks, ok := strings.CutPrefix(object, "keyspace/"); ok {
		return whole[ks] || partly[ks] != nil
	}
	ks, _, ok := schema.TableOfObject(object)
	if !ok {
		return true // the counters
	}
	_, isNew := slices.BinarySearch(changed, key)
	return whole[ks] || isNew
}

// withTables returns a copy of old in which the named tables come from fresh.
func withTables(old, fresh *schema.Keyspace, names []string) *schema.Keyspace {
	ks := *old
	ks.Tables = maps.Clone(old.Tables)
	if ks.Tables == nil {
		ks.Tables = map[string]*schema.Table{}
	}
	for _, name := range names {
		delete(ks.Tables, name)
		if fresh != nil && fresh.Tables[name] != nil {
			ks.Tables[name] = fresh.Tables[name]
		}
	}
	return &ks
}
