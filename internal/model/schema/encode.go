// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// Format is the version of the schema encoding. A reader rejects newer versions.
const Format = 2

// These are the key prefixes of objects. The counters are in one object. Each keyspace with its types, each table with
// its indexes, each function, and each aggregate is a separate object. Containers, views, and functions have separate
// key prefixes. A build that does not support them therefore rejects them.
const (
	rootObject     = "schema"
	keyspacePrefix = "keyspace/"
	tablePrefix    = "table/"
	itemsPrefix    = "container/"
	viewPrefix     = "view/"
	functionPrefix = "function/"
)

// objectKey returns the key of a table's object.
func (t *Table) objectKey() string {
	prefix := tablePrefix
	switch {
	case t.Container != nil:
		prefix = itemsPrefix
	case t.View != nil:
		prefix = viewPrefix
	}
	return prefix + t.Keyspace + "/" + t.Name
}

// TableOfObject returns the table that an object key identifies. ok is false if the key does not belong to a table.
func TableOfObject(key string) (keyspace, table string, ok bool) {
	for _, prefix := range []string{tablePrefix, itemsPrefix, viewPrefix} {
		if path, ok := strings.CutPrefix(key, prefix); ok {
			return strings.Cut(path, "/")
		}
	}
	return "", "", false
}

type rootJSON struct {
	Format   int    `json:"format"`
	Version  UUID   `json:"version"`
	Revision uint64 `json:"revision"`
	NextID   uint32 `json:"next_id"`

	rest rest
}

type keyspaceJSON struct {
	Name          string            `json:"name"`
	Replication   map[string]string `json:"replication"`
	DurableWrites bool              `json:"durable_writes"`
	Options       map[string]string `json:"options,omitempty"`
	Types         []userTypeJSON    `json:"types,omitempty"`
	Database      *Database         `json:"database,omitempty"`

	rest rest
}

type userTypeJSON struct {
	Name   string      `json:"name"`
	Fields []FieldSpec `json:"fields"`

	rest rest
}

type columnJSON struct {
	Name string     `json:"name"`
	ID   uint32     `json:"id"`
	Type *TypeSpec  `json:"type"`
	Kind ColumnKind `json:"kind"`
	Desc bool       `json:"desc,omitempty"`
	Mask *Mask      `json:"mask,omitempty"`
	// DroppedAt is set only for dropped columns.
	DroppedAt int64 `json:"dropped_at,omitempty"`
	ByTime    bool  `json:"by_time,omitempty"`

	rest rest
}

type indexJSON struct {
	Name    string            `json:"name"`
	ID      uint32            `json:"id"`
	Column  string            `json:"column"`
	Target  IndexTarget       `json:"target"`
	Kind    string            `json:"kind"`
	Options map[string]string `json:"options,omitempty"`
	Lists   Lists             `json:"lists,omitempty"`

	rest rest
}

type tableJSON struct {
	Keyspace       string       `json:"keyspace"`
	Name           string       `json:"name"`
	ID             uint32       `json:"id"`
	UUID           UUID         `json:"uuid"`
	Revision       uint64       `json:"revision"`
	Columns        []columnJSON `json:"columns"`
	NextColumn     uint32       `json:"next_column"`
	Dropped        []columnJSON `json:"dropped,omitempty"`
	Indexes        []indexJSON  `json:"indexes,omitempty"`
	Counter        bool         `json:"counter,omitempty"`
	CompactStorage bool         `json:"compact_storage,omitempty"`
	Options        TableOptions `json:"options"`
	Secret         []byte       `json:"secret,omitempty"`
	Container      *Container   `json:"container,omitempty"`
	Feed           *Feed        `json:"feed,omitempty"`
	View           *View        `json:"view,omitempty"`

	rest rest
}

// stored reports whether a keyspace is stored as an object. The catalog creates the system keyspaces, but users can
// alter the replication of some system keyspaces.
func stored(name string) bool { return !IsSystem(name) || IsReplicatedSystem(name) }

// Objects returns the encoded objects, by key, that differ between two versions. If old is nil, it returns all
// objects. gone lists the keys of dropped objects. The tables of system keyspaces are omitted.
func Objects(old, s *Schema) (put map[string][]byte, gone []string, err error) {
	if old == nil {
		old = &Schema{}
	}
	put = map[string][]byte{}
	add := func(key string, v any) {
		b, e := json.Marshal(v)
		if e != nil && err == nil {
			err = fmt.Errorf("encode %s: %w", key, e)
		}
		put[key] = b
	}
	add(rootObject, rootJSON{Format, s.Version, s.Revision, s.NextID, s.rest})
	for ks := range s.All() {
		before := old.Keyspaces[ks.Name]
		if !stored(ks.Name) || ks == before {
			continue
		}
		add(keyspacePrefix+ks.Name, ks.encode())
		if IsSystem(ks.Name) {
			continue
		}
		for _, t := range ks.Tables {
			if before == nil || before.Tables[t.Name] != t {
				add(t.objectKey(), t.encode())
			}
		}
		for _, f := range ks.Functions {
			if before == nil || !slices.Contains(before.Functions, f) {
				add(f.objectKey(), f.encode())
			}
		}
	}
	for ks := range old.All() {
		if IsSystem(ks.Name) {
			continue
		}
		now := s.Keyspaces[ks.Name]
		if now == nil {
			gone = append(gone, keyspacePrefix+ks.Name)
		}
		if now == ks {
			continue
		}
		for _, t := range ks.Tables {
			if now == nil || now.Tables[t.Name] == nil || now.Tables[t.Name].objectKey() != t.objectKey() {
				gone = append(gone, t.objectKey())
			}
		}
		gone = append(gone, droppedFunctions(ks, now)...)
	}
	slices.Sort(gone)
	return put, gone, err
}

// FromObjects decodes a schema from all of its objects.
func FromObjects(objects iter.Seq2[string, []byte]) (*Schema, error) {
	s := New()
	var tables []tableJSON
	var functions []functionJSON
	for key, b := range objects {
		var err error
		switch {
		case key == rootObject:
			err = s.decodeRoot(b)
		case strings.HasPrefix(key, keyspacePrefix):
			err = s.decodeKeyspace(b)
		case strings.HasPrefix(key, tablePrefix), strings.HasPrefix(key, itemsPrefix),
			strings.HasPrefix(key, viewPrefix):
			var t tableJSON
			t, err = unmarshalTable(b)
			tables = append(tables, t)
		case strings.HasPrefix(key, functionPrefix):
			var f functionJSON
			f, err = unmarshalFunction(b)
			functions = append(functions, f)
		default:
			err = feature.ErrNewer
		}
		if err != nil {
			return nil, fmt.Errorf("decode schema object %s: %w", key, err)
		}
	}
	for i := range tables {
		if err := s.decodeTable(&tables[i]); err != nil {
			return nil, fmt.Errorf("decode table %s.%s: %w", tables[i].Keyspace, tables[i].Name, err)
		}
	}
	for i := range functions {
		if err := s.decodeFunction(&functions[i]); err != nil {
			return nil, fmt.Errorf("decode function %s.%s: %w", functions[i].Keyspace, functions[i].Name, err)
		}
	}
	return s, nil
}

func (s *Schema) decodeRoot(b []byte) error {
	var root rootJSON
	err := json.Unmarshal(b, &root)
	switch {
	case err != nil:
		return err
	case root.Format > Format:
		return &feature.Newer{What: "the schema", Unit: "format", Has: uint64(root.Format), Newest: Format}
	case root.Format < Format:
		return fmt.Errorf("format %d is not supported by this build", root.Format)
	}
	if s.rest, err = restOf(b, root); err != nil {
		return err
	}
	s.Version, s.Revision, s.NextID = root.Version, root.Revision, root.NextID
	return nil
}

func (k *Keyspace) encode() keyspaceJSON {
	j := keyspaceJSON{Name: k.Name, Replication: k.Replication, DurableWrites: k.DurableWrites, Options: k.Options,
		Database: k.Database, rest: k.rest}
	for _, t := range k.SortedTypes() {
		u := userTypeJSON{Name: t.Name, rest: k.typeRest[t.Name]}
		for i, f := range t.Fields {
			u.Fields = append(u.Fields, FieldSpec{f, SpecOf(t.Elems[i])})
		}
		j.Types = append(j.Types, u)
	}
	return j
}

func (s *Schema) decodeKeyspace(b []byte) error {
	j, err := unmarshalKeyspace(b)
	if err != nil {
		return err
	}
	ks := &Keyspace{Name: j.Name, Replication: j.Replication, DurableWrites: j.DurableWrites, Options: j.Options,
		Database: j.Database, rest: j.rest}
	pending := map[string]*userTypeJSON{}
	for i := range j.Types {
		t := &j.Types[i]
		pending[t.Name] = t
		if t.rest == nil {
			continue
		}
		if ks.typeRest == nil {
			ks.typeRest = map[string]rest{}
		}
		ks.typeRest[t.Name] = t.rest
	}
	for i := range j.Types {
		if err := ks.decodeType(&j.Types[i], pending); err != nil {
			return err
		}
	}
	s.Keyspaces[ks.Name] = ks
	return nil
}

// decodeType decodes a user-defined type. It first decodes the types that this type uses.
func (k *Keyspace) decodeType(j *userTypeJSON, pending map[string]*userTypeJSON) error {
	if k.Types[j.Name] != nil {
		return nil
	}
	if pending[j.Name] == nil {
		return fmt.Errorf("type %s contains itself", j.Name)
	}
	delete(pending, j.Name)
	t := cqltype.UDTOf(k.Name, j.Name, make([]string, len(j.Fields)), make([]*cqltype.Type, len(j.Fields)))
	for i, f := range j.Fields {
		for _, name := range f.Type.userTypes(nil) {
			if p := pending[name]; p != nil {
				if err := k.decodeType(p, pending); err != nil {
					return err
				}
			}
		}
		var err error
		if t.Elems[i], err = f.Type.Bind(k.Name, k.Types); err != nil {
			return err
		}
		t.Fields[i] = f.Name
	}
	if k.Types == nil {
		k.Types = map[string]*cqltype.Type{}
	}
	k.Types[j.Name] = t
	return nil
}

// userTypes appends the names of the user-defined types in the spec.
func (t *TypeSpec) userTypes(names []string) []string {
	if t == nil {
		return names
	}
	if t.Kind == cqltype.UDT {
		names = append(names, t.Name)
	}
	for _, p := range t.Params {
		names = p.userTypes(names)
	}
	return names
}

func (t *Table) encode() tableJSON {
	j := tableJSON{
		Keyspace: t.Keyspace, Name: t.Name, ID: t.ID, UUID: t.UUID, Revision: t.Revision, NextColumn: t.NextColumn,
		Counter: t.Counter, CompactStorage: t.CompactStorage, Options: t.Options, Secret: t.Secret,
		Container: t.Container, Feed: t.Feed, View: t.View, rest: t.rest,
	}
	for c := range t.Columns() {
		j.Columns = append(j.Columns, columnJSON{Name: c.Name, ID: c.ID, Type: SpecOf(c.Type), Kind: c.Kind,
			Desc: c.Desc, Mask: c.Mask, rest: c.rest})
	}
	for i := range t.Dropped {
		d := &t.Dropped[i]
		j.Dropped = append(j.Dropped, columnJSON{
			Name: d.Name, ID: d.ID, Type: SpecOf(d.Type), Kind: d.Kind, DroppedAt: d.DroppedAt,
			ByTime: d.ByTime, rest: d.rest,
		})
	}
	for _, ix := range t.SortedIndexes() {
		j.Indexes = append(j.Indexes, indexJSON(*ix))
	}
	return j
}

func (s *Schema) decodeTable(j *tableJSON) error {
	ks := s.Keyspaces[j.Keyspace]
	if ks == nil {
		return fmt.Errorf("no such keyspace")
	}
	t := &Table{
		Keyspace: j.Keyspace, Name: j.Name, ID: j.ID, UUID: j.UUID, Revision: j.Revision, NextColumn: j.NextColumn,
		Counter: j.Counter, CompactStorage: j.CompactStorage, Options: j.Options, Indexes: map[string]*Index{},
		Secret: j.Secret, Container: j.Container, Feed: j.Feed, View: j.View, rest: j.rest,
	}
	t.Options.share()
	for i := range j.Columns {
		if err := addColumn(t, &j.Columns[i], ks); err != nil {
			return err
		}
	}
	for _, d := range j.Dropped {
		typ, err := d.Type.Bind(ks.Name, ks.Types)
		if err != nil {
			return err
		}
		t.Dropped = append(t.Dropped, DroppedColumn{
			Name: d.Name, ID: d.ID, Type: typ, Kind: d.Kind, DroppedAt: d.DroppedAt,
			ByTime: d.ByTime, rest: d.rest,
		})
	}
	for _, ix := range j.Indexes {
		index := Index(ix)
		t.Indexes[ix.Name] = &index
	}
	t.reindex()
	if ks.Tables == nil {
		ks.Tables = map[string]*Table{}
	}
	ks.Tables[t.Name] = t
	return nil
}

// addColumn adds a decoded column to a table.
func addColumn(t *Table, j *columnJSON, ks *Keyspace) error {
	typ, err := j.Type.Bind(ks.Name, ks.Types)
	if err != nil {
		return err
	}
	c := &Column{Name: j.Name, ID: j.ID, Type: typ, Kind: j.Kind, Position: -1, Desc: j.Desc, Mask: j.Mask,
		rest: j.rest}
	switch j.Kind {
	case PartitionKey:
		c.Position = len(t.PartitionKey)
		t.PartitionKey = append(t.PartitionKey, c)
	case Clustering:
		c.Position = len(t.Clustering)
		t.Clustering = append(t.Clustering, c)
	case Static:
		t.Statics = append(t.Statics, c)
	default:
		t.Regulars = append(t.Regulars, c)
	}
	return nil
}
