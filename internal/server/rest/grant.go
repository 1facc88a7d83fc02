// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/query/container"
)

// A request with resource tokens may read the account and use the containers of its permissions. authorize rejects all
// other operations. locator.find passes the container of each remaining request to allowed, so the check and the
// operation use the same version of the container.

// forbidden rejects a request that the permissions of its resource tokens do not allow. The response does not reveal
// whether the resource exists.
func forbidden() *failure {
	return &failure{status: http.StatusForbidden, message: "Insufficient permissions provided in the authorization header " +
		"for the corresponding request. Please retry with another authorization header."}
}

// tokensMay reports whether some permission can allow an operation.
func tokensMay(op *operation) bool {
	switch op.kind {
	case account, items, byKey, ranges, conflicts, procedures:
		return true
	case containers:
		return !op.feed
	}
	return false
}

// allowed reports whether a permission of the request allows its operation on a container.
func (x *exchange) allowed(c *container.Container) bool {
	for _, p := range x.granted {
		if g := &p.Grant; g.Container == c.RID && (g.All || x.operation.reads) && x.allows(g, c) {
			return true
		}
	}
	return false
}

// allows reports whether a grant on a container or on a resource in it allows the operation, regardless of the mode.
func (x *exchange) allows(g *dbresource.Grant, c *container.Container) bool {
	op, whole := x.operation, g.Kind == ""
	switch op.kind {
	case containers:
		// SDKs read the container to get its partition key paths.
		return op.reads || whole && g.KeyValues == 0
	case ranges:
		return true
	case items, byKey:
		switch {
		case op.name == queryPlan:
			return true
		case whole:
			return g.KeyValues == 0 || x.withinKey(g, c)
		case g.Kind == container.ItemKind:
			return x.isItem(g, c)
		}
	case procedures:
		switch {
		case whole && g.KeyValues == 0:
			return true
		case op.name == executeProcedure && g.KeyValues > 0 && !x.withinKey(g, c):
			return false
		case whole:
			return op.name == executeProcedure
		case g.Kind == string(x.target.kind) && !op.feed:
			s, err := x.script(c)
			return err == nil && s.RID == g.Target
		}
	case conflicts:
		return whole && g.KeyValues == 0
	}
	return false
}

// withinKey reports whether all partition keys of the request are within the limit of a grant.
func (x *exchange) withinKey(g *dbresource.Grant, c *container.Container) bool {
	within := func(text string) bool {
		key, err := c.ParseKey(text)
		return err == nil && container.Within(g, key)
	}
	header := x.header.Get(hPartitionKey)
	if x.operation.name != bulkOperation {
		return header != "" && within(header)
	}
	keys, _, _, err := x.batchOperations()
	if err != nil {
		return false
	}
	for _, key := range keys {
		if key == "" {
			key = header
		}
		if !within(key) {
			return false
		}
	}
	return true
}

// isItem reports whether the request concerns only the item of a grant. Triggers could change other items.
func (x *exchange) isItem(g *dbresource.Grant, c *container.Container) bool {
	if x.target.feed || x.header.Get(hPreTriggers) != "" || x.header.Get(hPostTriggers) != "" {
		return false
	}
	key, err := x.wholeKey(c)
	return err == nil && container.Within(g, key) && c.Names(g, key, x.target.id(), x.byRID)
}
