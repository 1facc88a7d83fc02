// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/epk"
)

// Scope says where a query looks. The zero Scope is the whole container.
type Scope struct {
	// Key is a partition key or a prefix of one; nil for none.
	Key epk.Key
	// Range is the id of a physical partition; 410/1002 if there is none of that id any more. MinEPK and MaxEPK are a
	// range of effective partition keys, as hexadecimal numbers, the first included and the second not.
	Range, MinEPK, MaxEPK string
}

// Parameter is a parameter of a query.
type Parameter struct {
	Name  string // with its @
	Value []byte // JSON
}

// QueryRequest is one page of a query.
type QueryRequest struct {
	Scope
	Text       string
	Parameters []Parameter
	// CrossPartition says that the client allows the query to look at more than one logical partition; without it a
	// query without a key is refused (400).
	CrossPartition bool
	// Continuation is that of the page before, empty for the first one. MaxItems bounds the page, no bound but its size
	// and time if it is not positive.
	Continuation string
	MaxItems     int
	RequestOptions
}

// Page is what a query or a feed returns.
type Page struct {
	// Documents are JSON texts: of a feed, items with their system properties.
	Documents [][]byte
	// Continuation asks for the next page, empty if there is none.
	Continuation string
	Where
	// Metrics are for the headers that ask for them.
	Metrics QueryMetrics
}

// QueryMetrics say what a page took.
type QueryMetrics struct {
	RetrievedCount, RetrievedBytes, OutputCount, OutputBytes int64
	// IndexHits counts what was found by an index.
	IndexHits int64
}

// Query runs one page of a query.
func (e *Engine) Query(_ context.Context, _ *Container, _ *QueryRequest) (*Page, error) {
	return nil, Errorf(400, SubNotServable, "Queries of containers are not supported.")
}
