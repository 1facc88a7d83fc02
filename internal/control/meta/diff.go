// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Diff returns the records that change s to next, in ascending order of keys. s must be a loaded state, and next must
// be derived from s.
func (s *State) Diff(next *State) ([]command.Record, error) {
	d := diff{old: s.records}
	if next.Schema != s.Schema {
		put, gone, err := schema.Objects(s.Schema, next.Schema)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the schema: %w", err)
		}
		for key, value := range put {
			d.put(schemaPrefix+key, value)
		}
		for _, key := range gone {
			d.delete(schemaPrefix + key)
		}
	}
	d.topology(s, next)
	for _, n := range next.Nodes {
		if s.Node(n.ID) != n {
			d.put(nodePrefix+string(n.ID[:]), n.Append(nil))
		}
	}
	for _, n := range s.Nodes {
		if next.Node(n.ID) == nil {
			d.delete(nodePrefix + string(n.ID[:]))
			d.delete(proposalPrefix + string(n.ID[:]))
		}
	}
	for name, r := range next.Regions {
		if s.Regions[name] != r {
			d.put(regionPrefix+name, r.Append(nil))
		}
	}
	for id := range next.Building {
		if b := next.Builds[id]; !s.Building[id] || b != s.Builds[id] {
			d.put(idKey(buildPrefix, id), b.Append(nil))
		}
	}
	for id := range s.Building {
		if !next.Building[id] {
			d.delete(idKey(buildPrefix, id))
		}
	}
	for name, text := range next.Settings {
		d.put(settingPrefix+name, []byte(text))
	}
	for name := range s.Settings {
		if _, ok := next.Settings[name]; !ok {
			d.delete(settingPrefix + name)
		}
	}
	d.history(s, next)
	d.all(access.Changed(s.Roles, next.Roles))
	d.all(dbresource.Changed(s.Resources, next.Resources))
	slices.SortFunc(d.records, func(a, b command.Record) int { return bytes.Compare(a.Key, b.Key) })
	return d.records, nil
}

// diff collects changed records.
type diff struct {
	old     map[string][]byte
	records []command.Record
}

func (d *diff) put(key string, value []byte) {
	if old, ok := d.old[key]; !ok || !bytes.Equal(old, value) {
		d.records = append(d.records, command.Record{Key: []byte(key), Value: append([]byte{}, value...)})
	}
}

func (d *diff) delete(key string) {
	if _, ok := d.old[key]; ok {
		d.records = append(d.records, command.Record{Key: []byte(key)})
	}
}

// all adds changed records by their keys. The value of a deleted record is nil.
func (d *diff) all(changed map[string][]byte) {
	for key, value := range changed {
		if value == nil {
			d.delete(key)
		} else {
			d.put(key, value)
		}
	}
}

func idKey(prefix string, id uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte(prefix), id))
}

// topology adds the records of changed partitions.
func (d *diff) topology(s, next *State) {
	if s.Topology == next.Topology {
		return
	}
	d.put(topologyKey, next.Topology.AppendHeader(nil))
	for was, is := range next.Topology.Changes(s.Topology) {
		r := command.Record{}
		if is != nil {
			r.Key, r.Value = partitionKey(is.ID), topology.AppendPartition(nil, is)
		} else {
			r.Key = partitionKey(was.ID)
		}
		d.records = append(d.records, r)
	}
}

// partitionKey returns the key of a partition's record.
func partitionKey(id topology.PartitionID) []byte {
	return binary.BigEndian.AppendUint64([]byte(partitionPrefix), uint64(id))
}
