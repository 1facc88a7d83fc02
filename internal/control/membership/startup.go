// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Startup determines whether a node is standalone, creates a cluster, joins a cluster, or is already a member. The
// caller must set the exported fields before use. The methods may change Bootstrap and Join.
type Startup struct {
	// Internal is the configured address of the listener for other nodes, or empty on a standalone node. Addresses are
	// the addresses at which other nodes reach this node.
	Internal  string
	Addresses []string
	// Bootstrap reports whether the node may create a cluster. Join lists addresses of nodes in the cluster, which may
	// include this node.
	Bootstrap bool
	Join      []string
	// Certified is the node ID in the node's certificate, or nil.
	Certified *topology.NodeID
	// Secret returns an error if the secret to join a cluster is missing.
	Secret interface{ Check() error }
	// QueryCluster queries the node at an address.
	QueryCluster ClusterQuery
	Log          *slog.Logger
}

// Finder returns the ClusterFinder of the nodes in Join, except this node.
func (s *Startup) Finder() ClusterFinder {
	f := ClusterFinder{Log: s.Log, QueryCluster: s.QueryCluster}
	for _, address := range s.Join {
		if address != s.Internal && !slices.Contains(s.Addresses, address) {
			f.Addresses = append(f.Addresses, address)
		}
	}
	return f
}

// Identity returns the identity of a new store in a directory. dir is empty for an in-memory store. If the node joins a
// cluster, Identity waits for a node of the cluster, and the level of the identity is oldest.
func (s *Startup) Identity(ctx context.Context, dir string, oldest feature.Level) (id storage.Identity, err error) {
	if s.Certified != nil {
		id.Node = *s.Certified
	}
	if dir != "" {
		if was, err := storage.ReadIdentity(vfs.Default, dir); err != nil || was != nil {
			return id, err // the directory already has an identity
		}
	}
	switch {
	case s.Internal != "" && !s.Bootstrap && len(s.Join) == 0:
		return id, ErrNoCluster
	case len(s.Join) == 0:
		return id, nil
	}
	if err := s.Secret.Check(); err != nil {
		return id, err
	}
	if founds, err := s.decideBootstrap(ctx); err != nil || founds {
		return id, err
	}
	id.Level = oldest // the metadata contains the cluster's level
	finder := s.Finder()
	id.Cluster, err = finder.FindCluster(ctx)
	return id, err
}

// decideBootstrap decides whether a node with Bootstrap and Join creates the cluster. The first node in Join creates
// the cluster unless the cluster already exists. All other nodes join the cluster.
func (s *Startup) decideBootstrap(ctx context.Context) (founds bool, err error) {
	if !s.Bootstrap || len(s.Join) == 0 {
		return false, nil
	}
	if slices.Contains(s.Addresses, s.Join[0]) {
		finder := s.Finder()
		if founds, err = finder.NoClusterFound(ctx); err != nil {
			return false, err
		}
	}
	if s.Bootstrap = founds; founds {
		s.Join = nil
	}
	return founds, nil
}

// Prepare creates a cluster in the store if necessary, and rejects invalid starts. self returns the record of this
// node.
func (s *Startup) Prepare(ctx context.Context, store *storage.Store, self func() *meta.Node) error {
	if id := store.Identity().Node; s.Certified != nil && *s.Certified != id {
		return fmt.Errorf("the certificate in cluster.tls is for node %x, but the data belongs to node %x", *s.Certified,
			id)
	}
	if known, err := IsMember(store.Records); err != nil {
		return err
	} else if !known {
		if _, err := s.decideBootstrap(ctx); err != nil {
			return err
		}
	}
	found, err := CheckStart(store, StartOptions{Internal: s.Internal != "", Bootstrap: s.Bootstrap,
		Join: len(s.Join) > 0})
	if err != nil || !found {
		return err
	}
	first := self()
	first.Joined = time.Now().UTC().Truncate(time.Millisecond)
	return Bootstrap(store, first)
}
