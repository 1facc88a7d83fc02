// SPDX-License-Identifier: Apache-2.0

// Package ilion runs a database inside a Go program or a test. The database stores data in a directory or in memory. It
// serves CQL clients in the same way as any other node.
//
//	db, err := ilion.Start(ctx, ilion.Options{}) // in memory, on a free port of 127.0.0.1
//	defer db.Close()
//	cluster := gocql.NewCluster(db.CQLAddr().String())
package ilion

import (
	"context"
	"log/slog"
	"net"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
)

// Options holds the options of a database. With the zero value, the database runs in memory and uses free ports of the
// loopback interface.
type Options struct {
	// Dir is the data directory. If the directory does not exist, Start creates it. If Dir is empty, all data is stored
	// in memory.
	Dir string
	// CQLAddr is the address for CQL clients (host:port). The default is 127.0.0.1:0, which selects a free port.
	CQLAddr string
	// HTTPAddr is the address for health checks, status, and metrics (host:port). If HTTPAddr is empty, HTTP is
	// disabled.
	HTTPAddr string
	// Periodic allows the database to acknowledge writes up to 10 ms before they are on disk. By default, writes are
	// on disk before they are acknowledged.
	Periodic bool
	// InitialPartitions is the number of physical partitions of a new table, from 1 to 1024. The default is 1.
	InitialPartitions int
	// MemoryBytes limits the total memory of caches, memtables, and requests. The default is half of the machine's
	// memory. Start does not change the memory limit or the garbage collector settings of the process.
	MemoryBytes int64
	// Compatibility is the Cassandra release whose behavior the database reproduces. The value is "4.0" or "5.0". The
	// default is "5.0".
	Compatibility string
	// Users maps user names to bcrypt password hashes. If Users is not empty, clients must log in.
	Users map[string]string
	// UserDefinedFunctions allows clients to create and call user-defined functions.
	UserDefinedFunctions bool
	// Log receives log messages. If Log is nil, log messages are discarded.
	Log *slog.Logger
}

// DB is a running database.
type DB struct{ n *node.Node }

// Start starts a database and returns when the database serves requests. It returns an error if an option is invalid,
// an address is in use, the directory cannot be opened, or another process uses the directory. The context applies only
// to the start. The caller must call Close to stop the database.
func Start(ctx context.Context, o Options) (*DB, error) {
	opts := options.Options{
		Data:              o.Dir,
		CQL:               o.CQLAddr,
		HTTP:              o.HTTPAddr,
		InitialPartitions: o.InitialPartitions,
		Memory:            options.Memory{Budget: options.Bytes(o.MemoryBytes)},
		Compatibility:     o.Compatibility,
		UserFunctions:     o.UserDefinedFunctions,
		Auth:              options.Auth{Users: o.Users},
		Log:               o.Log,
	}
	if o.CQLAddr == "" {
		opts.CQL = "127.0.0.1:0"
	}
	if o.HTTPAddr == "" {
		opts.HTTP = "off"
	}
	if o.Periodic {
		opts.Commit = "periodic"
	}
	n, err := node.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &DB{n}, nil
}

// CQLAddr returns the address for CQL clients.
func (db *DB) CQLAddr() net.Addr { return db.n.CQLAddr() }

// HTTPAddr returns the address for health checks, status, and metrics, or nil if HTTP is disabled.
func (db *DB) HTTPAddr() net.Addr { return db.n.HTTPAddr() }

// Close stops the database. It completes in-flight requests, syncs and closes the store, and ends all goroutines.
func (db *DB) Close() error { return db.n.Close() }
