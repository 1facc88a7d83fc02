// SPDX-License-Identifier: Apache-2.0

package container

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// unsupportedSettings contains members of a container definition that Ilion does not support. A definition that sets
// one of these members is rejected, because a setting that is stored but ignored would change the results of queries
// without notice.
var unsupportedSettings = []string{"materializedViewDefinition", "dataMaskingPolicy"}

// checkSettings rejects a container definition with settings that would have no effect or have values that Cosmos DB
// rejects.
func checkSettings(v document.Value) *Error {
	for _, member := range unsupportedSettings {
		if isSet(v.Get(member)) {
			return unsupported(member)
		}
	}
	if ttl := v.Get("analyticalStorageTtl"); isSet(ttl) && !(ttl.Kind() == document.Number && ttl.Float() == 0) {
		return unsupported("analyticalStorageTtl")
	}
	conflicts := v.Get("conflictResolutionPolicy")
	if e := checkChoice("conflictResolutionPolicy.mode", conflicts.Get("mode"), "LastWriterWins", "Custom"); e != nil {
		return e
	}
	for ix := range v.Get("indexingPolicy").Get("spatialIndexes").Elements() {
		if e := checkSpatialIndex(ix); e != nil {
			return e
		}
	}
	return checkChoice("geospatialConfig.type", v.Get("geospatialConfig").Get("type"), "Geography", "Geometry")
}

// checkSpatialIndex rejects an invalid spatial index. A valid setting does not change how queries are executed.
func checkSpatialIndex(v document.Value) *Error {
	if path := v.Get("path").Str(); !strings.HasPrefix(path, "/") {
		return Errorf(400, 0, "The path %q of a spatial index is invalid. Use a path such as /location/*.", path)
	}
	for kind := range v.Get("types").Elements() {
		if e := checkChoice("spatialIndexes.types", kind, "Point", "LineString", "Polygon", "MultiPolygon"); e != nil {
			return e
		}
	}
	return nil
}

// isSet reports whether a member of a definition is set. For members that are not set, SDKs send null, [], or {}.
func isSet(v document.Value) bool {
	switch v.Kind() {
	case document.Undefined, document.Null:
		return false
	case document.Array, document.Object:
		return v.Len() > 0
	default:
		return true
	}
}

func unsupported(member string) *Error {
	return Errorf(400, 0, "The container definition sets '%s', which is not supported. Remove it from the definition.",
		member)
}

// checkChoice rejects a member whose value is not one of values.
func checkChoice(member string, v document.Value, values ...string) *Error {
	if !isSet(v) || slices.ContainsFunc(values, func(each string) bool { return strings.EqualFold(each, v.Str()) }) {
		return nil
	}
	return Errorf(400, 0, "The value of '%s' must be one of %v, not %v.", member, values, v)
}

// checkLegacyIndexes rejects the index kinds of an included path that Cosmos DB rejects. As in Cosmos DB, valid kinds
// have no effect, because every path has a range index.
func checkLegacyIndexes(path string, indexes document.Value) *Error {
	if isSet(indexes) && indexes.Kind() != document.Array {
		return Errorf(400, 0, "The member 'indexes' of the indexing path '%s' must be an array.", path)
	}
	for ix := range indexes.Elements() {
		if e := checkChoice("indexes.kind", ix.Get("kind"), "Hash", "Range", "Spatial"); e != nil {
			return e
		}
		e := checkChoice("indexes.dataType", ix.Get("dataType"), "String", "Number", "Point", "LineString", "Polygon",
			"MultiPolygon")
		if e != nil {
			return e
		}
	}
	return nil
}
