// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/control/regions"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// Options holds the parts of a node that the endpoints use. In tests, all fields except Metrics may be nil.
type Options struct {
	// Health is served at /healthz and /readyz.
	Health Health
	// Metrics is served at /metrics.
	Metrics prometheus.Gatherer
	Reports Reports
	Advisor Advisor
	// Diagnostics serves the cluster-wide diagnostics. If Diagnostics is nil, these endpoints are disabled.
	Diagnostics Diagnostics
	Partitions  *operations.Partitions
	// Nodes changes the states of nodes. Regions adds and removes regions. They are nil on a standalone node.
	Nodes       NodeOperations
	Regions     RegionOperations
	Maintenance Maintenance
	Verifier    *view.PageVerifier
	Archive     Archive
	// Encryption manages the keys of the data directory. It is nil if the directory is not encrypted.
	Encryption Encryption
	// Keys is served at /keys as JSON. If Keys is nil, the endpoint is disabled. Only the owner of the data directory
	// has access.
	Keys *AccountKeys
	// Page serves the web UI below /ui/. If Page is nil, the web UI is disabled. All roles that have logged in can use
	// /ui/explore (Role).
	Page http.Handler
	// Profile enables Go's profiles under /debug/pprof/. They require the permission for commands, because they reveal
	// the structure of statements and use processor time.
	Profile bool
}

// Health reports whether the node works.
type Health interface {
	// Err returns the failure that stopped the node, or nil while it serves requests.
	Err() error
}

// Reports describes the node, its tables, and its partitions. *Reporter implements it.
type Reports interface {
	// Status is served at /status as JSON. StatusWithoutKeys omits the keys of logical partitions.
	Status() Status
	StatusWithoutKeys() Status
	// History is served at /history as JSON.
	History() []ChangeStatus
	// ShowUsage and Users are served at /usage and /usage/history as JSON. Both endpoints accept ?table=ks.t.
	ShowUsage(ctx context.Context, table string, history bool) []TableUsage
	Users(ctx context.Context) []usage.User
	// Table is served at /table?table=ks.t. If the table does not exist, Table returns an error.
	Table(ctx context.Context, table string) (*TableReport, error)
	// Ring is served at /ring.
	Ring() []catalog.RingNode
}

// Advisor analyzes the design of tables.
type Advisor interface {
	// Advise analyzes a table. If the name is empty, it analyzes all tables. It is served at /advise as JSON.
	Advise(ctx context.Context, table string) ([]advise.Report, error)
}

// Diagnostics shows the clients and the location of data on all nodes.
type Diagnostics interface {
	// Endpoints is served at /endpoints?keyspace=ks&table=t&key=..&key=...
	Endpoints(ctx context.Context, table string, key []string) (catalog.Endpoints, error)
	// ListSessions is served at /sessions. most is the requested number of sessions. It is 0 if the request contains
	// no number.
	ListSessions(ctx context.Context, most int) catalog.Sessions
	// CancelSession closes a session and returns a message. POST /sessions/cancel calls it.
	CancelSession(ctx context.Context, id string) (string, error)
	// SlowQueries is served at /slow.
	SlowQueries(ctx context.Context) slowlog.Report
}

// NodeOperations changes the states of nodes. *membership.NodeOperations implements it.
type NodeOperations interface {
	// SetState drains, decommissions, or resumes a node. node is a prefix of the node ID. It returns a message. POST
	// /node/drain and similar endpoints call it.
	SetState(ctx context.Context, node string, to meta.NodeState) (string, error)
}

// RegionOperations adds and removes regions. Its methods return messages. *regions.Operations implements it.
type RegionOperations interface {
	// Add registers a region. POST /region/add calls it.
	Add(ctx context.Context, name string) (string, error)
	// Remove removes a region without nodes. POST /region/remove calls it.
	Remove(ctx context.Context, name string) (string, error)
	// List returns the regions. It is served at /regions as JSON.
	List() ([]regions.Region, error)
}

// Maintenance maintains the data of the node. *operations.Maintenance implements it.
type Maintenance interface {
	// Compact compacts all levels of the store. POST /compact calls it and waits for its end.
	Compact(ctx context.Context) error
	// Checkpoint writes a consistent copy of the data and returns its path. POST /checkpoint calls it.
	Checkpoint() (string, error)
	// RaiseLevel raises the feature level to the newest level that all nodes support, and returns the new level. POST
	// /upgrade calls it.
	RaiseLevel(ctx context.Context) (feature.Level, error)
}

// Archive executes the requests of the backup and restore tools.
type Archive interface {
	// Execute executes a request, such as backup/begin. POST /backup/begin and similar endpoints call it.
	Execute(ctx context.Context, what string, body []byte) ([]byte, error)
}

// AccountKeys shows the keys of the REST API and the addresses that accept them.
type AccountKeys struct {
	// Source returns the current keys. *rest.Keyring implements it.
	Source interface{ Keys() *rest.Keys }
	// Endpoint and CQL are the addresses in Keys.
	Endpoint, CQL string
}

// show returns the current keys.
func (a *AccountKeys) show() *Keys {
	k, text := a.Source.Keys(), base64.StdEncoding.EncodeToString
	return &Keys{Endpoint: a.Endpoint, CQL: a.CQL, Primary: text(k.Primary), Secondary: text(k.Secondary),
		ReadOnly: text(k.ReadOnly)}
}

// Keys holds the keys with which REST clients sign requests and some CQL clients log in. The keys are in base64. A key
// is empty if it has not been generated yet.
type Keys struct {
	// Endpoint is the URL of the REST API. CQL is the address that accepts a key as a password. If the node does not
	// serve an address, the field is empty.
	Endpoint  string `json:"endpoint"`
	CQL       string `json:"cql,omitempty"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	ReadOnly  string `json:"readOnly"`
}
