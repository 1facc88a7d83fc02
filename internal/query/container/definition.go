// SPDX-License-Identifier: Apache-2.0

package container

import (
	"github.com/ilion-db/ilion/internal/model/epk"
)

// Definition is what a container was made with.
type Definition struct {
	// JSON is the whole object as the client sent it, with the defaults that Cosmos DB adds, without system properties:
	// also members that this build does not know.
	JSON []byte
	ID   string
	// Paths are the partition key paths as they were given, /a or /a/"b c".
	Paths []string
	// Hash says how keys are hashed.
	Hash epk.Scheme
	// TTL is the default time to live of items in seconds: -1 none by default, but items may have one; 0: items
	// do not expire, whatever they say.
	TTL int32
	// UniqueKeys are the paths of each unique key.
	UniqueKeys [][]string
	// Index says which paths of items are indexed.
	Index IndexingPolicy
}

// IndexingPolicy is the part of an indexing policy that has an effect.
type IndexingPolicy struct {
	// None turns automatic indexing off.
	None bool
	// Included and Excluded are paths as they were given: /*, /a/b/?, /"_etag"/?.
	Included, Excluded []string
}
