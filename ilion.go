// SPDX-License-Identifier: Apache-2.0

// Package ilion runs the whole database inside a Go program or a test: on a directory or purely in memory, reached over
// CQL like any other node.
//
//	db, err := ilion.Start(ctx, ilion.Options{})  // in memory, on a free port of 127.0.0.1
//	defer db.Close()
//	cluster := gocql.NewCluster(db.CQLAddr().String())
package ilion

import (
	"context"
	"log/slog"
	"net"

	"github.com/ilion-db/ilion/internal/node"
)

// Options configure a database. The zero value runs in memory on free ports of the loopback interface.
type Options struct {
	// Dir is the data directory; it is created if absent. Empty keeps everything in memory.
	Dir string
	// CQLAddr is where CQL clients connect, host:port; empty means 127.0.0.1:0, a free port.
	CQLAddr string
	// HTTPAddr is where health and metrics are served, host:port; empty serves none.
	HTTPAddr string
	// Periodic acknowledges writes before they are on disk; they are within 10 ms. By default an acknowledged write is
	// on disk.
	Periodic bool
	// InitialPartitions is how many physical partitions a new table is cut into; 0 means 1, 1024 is the most.
	InitialPartitions int
	// MemoryBytes bounds caches, memtables and requests together; 0 takes half of the machine's memory. The process's
	// memory limit and garbage collector settings are left alone: they belong to the program.
	MemoryBytes int64
	// Compatibility is whose answers are given where releases of Cassandra answer otherwise: "4.0", or "5.0", the
	// default.
	Compatibility string
	// Users switches on password authentication; it maps names to bcrypt hashes.
	Users map[string]string
	// UserDefinedFunctions lets clients create and call user-defined functions.
	UserDefinedFunctions bool
	// Log receives what happens; nil discards it.
	Log *slog.Logger
}

// DB is a running database.
type DB struct{ n *node.Node }

// Start runs a database and returns when it serves requests. The context bounds the start only; Close ends the
// database.
func Start(ctx context.Context, o Options) (*DB, error) {
	opts := node.Options{
		Data:              o.Dir,
		CQL:               o.CQLAddr,
		HTTP:              o.HTTPAddr,
		InitialPartitions: o.InitialPartitions,
		Memory:            node.MemoryOptions{Budget: node.Bytes(o.MemoryBytes)},
		Compatibility:     o.Compatibility,
		UserFunctions:     o.UserDefinedFunctions,
		Auth:              node.AuthOptions{Users: o.Users},
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

// CQLAddr is the address CQL clients connect to.
func (db *DB) CQLAddr() net.Addr { return db.n.CQLAddr() }

// HTTPAddr is the address of health and metrics, nil if they are not served.
func (db *DB) HTTPAddr() net.Addr { return db.n.HTTPAddr() }

// Close stops the database: requests in progress are finished, the store is synced and closed, and no goroutine stays
// behind.
func (db *DB) Close() error { return db.n.Close() }
