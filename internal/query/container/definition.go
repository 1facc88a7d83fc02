// SPDX-License-Identifier: Apache-2.0

package container

import (
	"math"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// Definition is the definition of a container.
type Definition struct {
	// JSON is the complete object that the client sent, including members unknown to this build. JSON contains the
	// defaults that Cosmos DB adds, but no system properties.
	JSON []byte
	ID   string
	// Paths are the partition key paths in the client's notation, such as /a or /a/"b c".
	Paths []string
	// Hash is the hash scheme of the partition key.
	Hash epk.Scheme
	// TTL is the default time to live of items in seconds. -1 means that items expire only by their own ttl. 0 means
	// that items never expire, even if they have a ttl.
	TTL int32
	// UniqueKeys contains the paths of each unique key.
	UniqueKeys [][]string
	// Keep is the retention of all versions and deletions for the change feed in seconds. If Keep is 0, they are not
	// retained.
	Keep int64
	// Index determines which paths of items are indexed.
	Index IndexingPolicy
	// Schema holds the computed properties and the metrics of vectors.
	Schema *sql.Schema

	keyPaths []document.Path
	unique   [][]document.Path
	// before contains the policies that have been in force since the index was last complete.
	before []*IndexingPolicy
	// scripts contains the container's scripts. It is created on first use.
	scripts atomic.Pointer[[]*Script]
}

// These are limits of definitions.
const (
	definitionBytesMax = 256 << 10
	uniqueKeysMax      = 10
	uniquePathsMax     = 16
	// PathBytesMax is the maximum length of a partition key path. The path also names a column.
	PathBytesMax = 1024
)

// These are defaults that Cosmos DB adds for omitted members.
const (
	defaultPath     = "/_partitionKey"
	defaultIndexing = `{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],` +
		`"excludedPaths":[{"path":"/\"_etag\"/?"}]}`
	etagExclusion    = `{"path":"/\"_etag\"/?"}`
	defaultConflicts = `{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`
	defaultGeometry  = `{"type":"Geography"}`
)

// systemMembers are the members that the server sets. The server ignores the values that a client sends for these
// members.
var systemMembers = []string{"_rid", "_ts", "_self", "_etag", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts",
	"statistics"}

// ParseDefinition parses the body of a request that creates or replaces a container.
func ParseDefinition(body []byte) (*Definition, *Error) {
	v, err := document.Parse(body, document.Limits{Size: definitionBytesMax})
	if err != nil {
		return nil, bodyError(err)
	}
	if v.Kind() != document.Object {
		return nil, Errorf(400, 0, "The definition of a container must be a JSON object.")
	}
	v = document.Without(v, systemMembers...)
	for _, d := range [][2]string{{"indexingPolicy", defaultIndexing}, {"conflictResolutionPolicy", defaultConflicts},
		{"geospatialConfig", defaultGeometry}} {
		if m := v.Get(d[0]); !m.IsDefined() || m.Kind() == document.Null {
			v = document.With(v, d[0], document.View([]byte(d[1])))
		}
	}
	d := &Definition{ID: v.Get("id").Str(), Schema: new(sql.Schema)}
	if e := checkName(d.ID); e != nil {
		return nil, e
	}
	if e := checkSettings(v); e != nil {
		return nil, e
	}
	for _, read := range []func(document.Value) (document.Value, *Error){d.readKey, d.readTTL, d.readUnique,
		d.readIndex, d.readChanges, d.readComputed, d.readVectors, d.readTexts, d.readEncryption} {
		var e *Error
		if v, e = read(v); e != nil {
			return nil, e
		}
	}
	d.JSON = v.Append(nil)
	return d, nil
}

// viewDefinition parses JSON that ParseDefinition has returned before.
func viewDefinition(json []byte) *Definition {
	v := document.View(json)
	d := &Definition{ID: v.Get("id").Str(), JSON: json, Schema: new(sql.Schema)}
	for _, read := range []func(document.Value) (document.Value, *Error){d.readKey, d.readTTL, d.readUnique,
		d.readIndex, d.readChanges, d.readComputed, d.readVectors, d.readTexts} {
		v, _ = read(v)
	}
	return d
}

// bodyError returns the client error for invalid JSON.
func bodyError(err error) *Error {
	if e, ok := err.(*document.SizeError); ok { //nolint:errorlint // Parse does not wrap
		return Errorf(413, 0, "Request size is too large: %d bytes, the limit is %d.", e.Size, e.Limit)
	}
	return Errorf(400, 0, "The request body is not valid: %v", err)
}

// texts returns the strings in an array. ok is false if v is not an array of strings.
func texts(v document.Value) (out []string, ok bool) {
	for e := range v.Elements() {
		if e.Kind() != document.String {
			return nil, false
		}
		out = append(out, e.Str())
	}
	return out, v.Kind() == document.Array
}

func (d *Definition) readKey(v document.Value) (document.Value, *Error) {
	pk := v.Get("partitionKey")
	if !pk.IsDefined() || pk.Kind() == document.Null {
		pk = document.View([]byte(`{"paths":["` + defaultPath + `"],"kind":"Hash"}`))
		v = document.With(v, "partitionKey", pk)
	}
	paths, ok := texts(pk.Get("paths"))
	if !ok || len(paths) == 0 {
		return v, Errorf(400, 0, "The partition key has no paths. Specify them as in \"partitionKey\":{\"paths\":[\"/a\"]}.")
	}
	kind := pk.Get("kind").Str()
	switch version := pk.Get("version").Float(); {
	case kind == "MultiHash":
		d.Hash = epk.MultiHash
		if len(paths) > epk.PathsMax {
			return v, Errorf(400, 0, "Too many partition key paths: at most %d are allowed.", epk.PathsMax)
		}
	case kind != "Hash" && kind != "":
		return v, Errorf(400, 0, "The kind of a partition key must be Hash or MultiHash, not %q.", kind)
	case len(paths) > 1:
		return v, Errorf(400, 0, "Too many partition key paths: one is allowed, or up to %d with the kind MultiHash.",
			epk.PathsMax)
	case version >= 2:
		d.Hash = epk.V2
	default:
		d.Hash = epk.V1
	}
	for i, p := range paths {
		path, err := document.ParsePath(p)
		switch {
		case err != nil:
			return v, Errorf(400, 0, "%v", err)
		case len(p) > PathBytesMax:
			return v, Errorf(400, 0, "A partition key path is limited to %d bytes.", PathBytesMax)
		}
		for _, other := range d.keyPaths {
			if path.String() == other.String() {
				return v, Errorf(400, 0, "Duplicate partition key path %s.", p)
			}
		}
		d.Paths, d.keyPaths = append(d.Paths, paths[i]), append(d.keyPaths, path)
	}
	return v, nil
}

func (d *Definition) readTTL(v document.Value) (document.Value, *Error) {
	ttl := v.Get("defaultTtl")
	if !ttl.IsDefined() {
		return v, nil
	}
	seconds, ok := ttlOf(ttl)
	if !ok {
		return v, Errorf(400, 0, "The value of 'defaultTtl' must be an integer from 1 to %d, or -1, not %v.",
			math.MaxInt32, ttl)
	}
	d.TTL = seconds
	return v, nil
}

// ttlOf parses a time to live, which is -1 or a positive number.
func ttlOf(v document.Value) (seconds int32, ok bool) {
	f := v.Float()
	if v.Kind() != document.Number || f != math.Trunc(f) || f > math.MaxInt32 || f != -1 && f < 1 {
		return 0, false
	}
	return int32(f), true
}

func (d *Definition) readUnique(v document.Value) (document.Value, *Error) {
	policy := v.Get("uniqueKeyPolicy")
	if !policy.IsDefined() || policy.Kind() == document.Null {
		return v, nil
	}
	for k := range policy.Get("uniqueKeys").Elements() {
		paths, ok := texts(k.Get("paths"))
		if !ok || len(paths) == 0 || len(paths) > uniquePathsMax {
			return v, Errorf(400, 0, "A unique key must have 1 to %d paths.", uniquePathsMax)
		}
		var parsed []document.Path
		for _, p := range paths {
			path, err := document.ParsePath(p)
			if err != nil {
				return v, Errorf(400, 0, "%v", err)
			}
			parsed = append(parsed, path)
		}
		d.UniqueKeys, d.unique = append(d.UniqueKeys, paths), append(d.unique, parsed)
	}
	if len(d.unique) > uniqueKeysMax {
		return v, Errorf(400, 0, "A container is limited to %d unique keys.", uniqueKeysMax)
	}
	return v, nil
}

func (d *Definition) readIndex(v document.Value) (document.Value, *Error) {
	index, policy, e := parsePolicy(v.Get("indexingPolicy"))
	if e != nil {
		return v, e
	}
	d.Index = index
	return document.With(v, "indexingPolicy", policy), nil
}
