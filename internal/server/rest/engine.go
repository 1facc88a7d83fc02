// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/container/sql"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// Engine is the engine behind the server. *container.Engine implements it. Clients receive errors of the type
// *container.Error unchanged.
type Engine interface {
	resources
	records
	throughputs
	scripts
	compiler
}

// compiler limits the memory and the processor time of queries.
type compiler interface {
	// Compiling reserves memory for a query text until release is called. Evaluation returns the meter of an
	// evaluation. The caller must close the meter.
	Compiling(text string) (release func(), err error)
	Evaluation(ctx context.Context, who fairshare.Principal) *meter.Meter
}

// resources manages databases and containers.
type resources interface {
	// Renewed waits until this node has received all databases and containers. If this node cannot be missing a
	// database or container, Renewed returns false.
	Renewed(ctx context.Context) bool
	Databases() []*container.Database
	Database(id string) (*container.Database, error)
	DatabaseByRID(rid string) (*container.Database, error)
	CreateDatabase(ctx context.Context, id string, t container.Throughput) (*container.Database, error)
	DeleteDatabase(ctx context.Context, d *container.Database, ifMatch string) error
	Containers(d *container.Database) []*container.Container
	Container(d *container.Database, id string) (*container.Container, error)
	ContainerByRID(rid string) (*container.Container, error)
	CreateContainer(ctx context.Context, d *container.Database, body []byte,
		t container.Throughput) (*container.Container,
		error)
	ReplaceContainer(ctx context.Context, c *container.Container, body []byte, ifMatch string) (*container.Container,
		error)
	DeleteContainer(ctx context.Context, c *container.Container, ifMatch string) error
	databaseResources
	IndexProgress(c *container.Container) int
	Sizes(ctx context.Context, c *container.Container) []container.Size
}

// databaseResources are users, permissions, and client encryption keys. The user is nil except for permissions.
type databaseResources interface {
	DatabaseResources(d *container.Database, k dbresource.Kind,
		user *container.DatabaseResource) []*container.DatabaseResource
	DatabaseResource(d *container.Database, k dbresource.Kind, user *container.DatabaseResource, id string,
		byRID bool) (*container.DatabaseResource, error)
	CreateDatabaseResource(ctx context.Context, d *container.Database, k dbresource.Kind,
		user *container.DatabaseResource, body []byte, upsert bool) (r *container.DatabaseResource, created bool,
		err error)
	ReplaceDatabaseResource(ctx context.Context, r *container.DatabaseResource, body []byte,
		ifMatch string) (*container.DatabaseResource, error)
	DeleteDatabaseResource(ctx context.Context, r *container.DatabaseResource, ifMatch string) error
	// Permission returns the permission of a resource token, or nil if it was replaced or deleted.
	Permission(ctx context.Context, number uint32, nonce, revision uint64) *container.DatabaseResource
}

// records executes operations on items.
type records interface {
	Do(ctx context.Context, c *container.Container, key epk.Key, ops []container.Operation,
		o container.RequestOptions) (*container.Results, error)
	Read(ctx context.Context, c *container.Container, key epk.Key, id, ifNoneMatch string,
		o container.RequestOptions) (*container.Result, container.Where, error)
	IDOf(ctx context.Context, c *container.Container, key epk.Key, rid string) (string, error)
	DeleteKey(ctx context.Context, c *container.Container, key epk.Key, o container.RequestOptions) (container.Where,
		error)
	Query(ctx context.Context, c *container.Container, q *container.QueryRequest) (*container.Page, error)
	Feed(ctx context.Context, c *container.Container, s container.Scope, continuation string, maxItems int,
		o container.RequestOptions) (*container.Page, error)
	Changes(ctx context.Context, c *container.Container, r *container.ChangesRequest) (*container.ChangesPage, error)
	progress
}

// progress returns the progress of the physical partitions of a container.
type progress interface {
	Ranges(c *container.Container) (ranges []container.Range, etag string)
	LSN(rangeID string) int64
	Seen(rangeID string, lsn int64)
}

// throughputs manages offers.
type throughputs interface {
	Offers() []*container.Offer
	Offer(id string) (*container.Offer, error)
	ReplaceOffer(ctx context.Context, o *container.Offer, t container.Throughput, ifMatch string) (*container.Offer,
		error)
}

// scripts manages stored procedures, triggers, and user-defined functions.
type scripts interface {
	CreateScript(ctx context.Context, c *container.Container, kind container.ScriptKind,
		body []byte) (*container.Script,
		error)
	ReplaceScript(ctx context.Context, c *container.Container, s *container.Script, body []byte,
		ifMatch string) (*container.Script, error)
	DeleteScript(ctx context.Context, c *container.Container, s *container.Script, ifMatch string) error
}

// Scripts executes the scripts of containers. *script.Service implements it.
type Scripts interface {
	Execute(ctx context.Context, c *container.Container, key epk.Key, id string, args []byte, log bool,
		o container.RequestOptions) (*script.Executed, container.Where, error)
	Do(ctx context.Context, c *container.Container, key epk.Key, op *container.Operation, before, after []string,
		log bool, o container.RequestOptions) (*script.Executed, container.Where, error)
	Functions(c *container.Container) sql.Functions
}
