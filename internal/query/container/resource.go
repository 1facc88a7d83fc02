// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Database is a namespace of containers, as it is in one version of the schema.
type Database struct {
	// ID is the name that it was made with. RID is its resource id: 4 bytes in base64.
	ID, RID string
	// Etag changes with the database, and has quotes. TS is when it was made, in seconds since the epoch.
	Etag string
	TS   int64

	keyspace *schema.Keyspace
}

// Container is a container, as it is in one version of the schema. Do not keep it: look it up for each request.
type Container struct {
	Database *Database
	// ID is the name that it was made with. RID is its resource id, 8 bytes in base64, the first 4 the database's.
	ID, RID string
	Etag    string
	TS      int64
	// Definition is what it was made with, with defaults, and what this build knows of it.
	Definition *Definition

	table *schema.Table
}

// Self is the link to the database by resource ids: dbs/<rid>/.
func (d *Database) Self() string { return "dbs/" + d.RID + "/" }

// Self is the link to the container by resource ids: dbs/<rid>/colls/<rid>/.
func (c *Container) Self() string { return c.Database.Self() + "colls/" + c.RID + "/" }

// Resource is the JSON of the database with its system properties.
func (d *Database) Resource() []byte { return nil }

// Resource is the JSON of the container with its system properties.
func (c *Container) Resource() []byte { return nil }

// Databases lists the databases in order of their ids.
func (e *Engine) Databases() []*Database { return nil }

// Database finds a database by its id; 404 if there is none.
func (e *Engine) Database(id string) (*Database, error) { return nil, nil }

// DatabaseByRID finds a database by its resource id; 404 if there is none.
func (e *Engine) DatabaseByRID(rid string) (*Database, error) { return nil, nil }

// CreateDatabase makes a database; 409 if it is there. Its throughput, if not zero, is shared by its containers.
func (e *Engine) CreateDatabase(ctx context.Context, id string, t Throughput) (*Database, error) {
	return nil, nil
}

// DeleteDatabase drops a database with all that is in it.
func (e *Engine) DeleteDatabase(ctx context.Context, d *Database) error { return nil }

// Containers lists the containers of a database in order of their ids.
func (e *Engine) Containers(d *Database) []*Container { return nil }

// Container finds a container by its id; 404 if there is none.
func (e *Engine) Container(d *Database, id string) (*Container, error) { return nil, nil }

// ContainerByRID finds a container by its resource id; 404 if there is none.
func (e *Engine) ContainerByRID(rid string) (*Container, error) { return nil, nil }

// CreateContainer makes a container from the body of a request, a JSON object; 409 if it is there, 400 if the body is
// wrong. The zero Throughput is none of its own.
func (e *Engine) CreateContainer(ctx context.Context, d *Database, body []byte, t Throughput) (*Container, error) {
	return nil, nil
}

// ReplaceContainer changes what may be changed of a container: its policies and its time to live. ifMatch, if not
// empty, is the etag that it has to have (412).
func (e *Engine) ReplaceContainer(ctx context.Context, c *Container, body []byte, ifMatch string) (*Container, error) {
	return nil, nil
}

// DeleteContainer drops a container with its items.
func (e *Engine) DeleteContainer(ctx context.Context, c *Container) error { return nil }
