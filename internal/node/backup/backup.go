// SPDX-License-Identifier: Apache-2.0

// Package backup serves the requests of the backup and restore tools. Server takes consistent snapshots of the whole
// cluster. It returns the files of the snapshots and later changes. Restorer creates the tables of a backup and writes
// their rows.
//
// The tools can send their requests to any node. Package archive defines the bodies of requests and responses. Start
// reading at Service.Execute.
package backup

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/snapshotset"
)

// Service serves the requests of both tools.
type Service struct {
	server   *Server
	restorer *Restorer
}

// NewService returns a Service.
func NewService(s *Server, r *Restorer) *Service { return &Service{s, r} }

// Execute executes a request, such as backup/begin or restore/rows.
func (s *Service) Execute(ctx context.Context, what string, body []byte) ([]byte, error) {
	if request, ok := strings.CutPrefix(what, "restore/"); ok {
		return s.restorer.Execute(ctx, request, body)
	}
	return s.server.Execute(ctx, strings.TrimPrefix(what, "backup/"), body)
}

// backupCall sends a backup request to a node. The response depends on the Op of the request.
var backupCall = rpc.Declare[nodeRequest, rpc.Bytes](rpc.Spec{Name: "backup", Since: 6, Timeout: time.Minute})

// nodeRequest is a backup request between nodes.
type nodeRequest struct {
	// Op is begin, seal, drop, page, or entries.
	Op string `json:"op"`
	// Mark makes the node keep, for some time, the changes that are applied after begin.
	Mark bool `json:"mark,omitempty"`
	archive.FileRequest
}

// Identity identifies the data in a backup.
type Identity struct {
	// Cluster is the ID of the cluster. For a standalone node, it is the ID of the node.
	Cluster [16]byte
	Node    topology.NodeID
	// Process identifies this process of a standalone node. A later process may reuse the log positions of lost
	// entries. Process is empty in a cluster, which keeps applied entries.
	Process string
	// Software is the version of this build.
	Software string
}

// Server serves the requests of the backup tool and the backup requests of other nodes. Set its exported fields before
// use.
type Server struct {
	Identity Identity
	Metadata *meta.Keeper
	Host     *partition.Host
	Changes  *changebuffer.Buffer
	Catalog  *catalog.Catalog
	// Queries queries the other nodes. It is nil on a standalone node.
	Queries *clusterquery.Client
	Clock   sched.Clock

	snapshots snapshotset.Manager
	dump      atomic.Pointer[metadataDump]
}

// Register registers the handler for the backup requests of other nodes.
func (s *Server) Register(server *rpc.Server) { clusterquery.Handle(server, backupCall, s.serve) }

// Close drops all snapshots.
func (s *Server) Close() error { return s.snapshots.Close() }

// Execute executes a request of the backup tool. The request is begin, mark, page, entries, or drop.
func (s *Server) Execute(ctx context.Context, what string, body []byte) ([]byte, error) {
	var request archive.FileRequest
	if len(body) > 0 {
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, fmt.Errorf("malformed backup request: %w", err)
		}
	}
	switch what {
	case "begin", "mark":
		taken, err := s.takeSnapshot(ctx, what == "mark")
		if err != nil {
			return nil, err
		}
		if slices.Contains(request.KnownFiles, taken.MetadataFile) {
			taken.Metadata = nil
		}
		return json.Marshal(taken)
	case "page", "entries":
		node, ok := parseNodeID(request.Node)
		if !ok {
			return nil, fmt.Errorf("%q is not a node ID", request.Node)
		}
		return s.request(ctx, node, &nodeRequest{Op: what, FileRequest: request})
	case "drop":
		s.dropSnapshot(ctx, request.ID)
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("unknown backup request %q", what)
}

func parseNodeID(text string) (id topology.NodeID, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return topology.NodeID(b), true
}

// request sends a backup request to a node. The node may be this node.
func (s *Server) request(ctx context.Context, node topology.NodeID, w *nodeRequest) ([]byte, error) {
	if node == s.Identity.Node {
		return s.serve(ctx, *w)
	}
	return clusterquery.Query(ctx, s.Queries, node, backupCall, *w)
}

// serve serves a backup request from another node.
func (s *Server) serve(ctx context.Context, w nodeRequest) (rpc.Bytes, error) {
	switch w.Op {
	case "begin":
		if w.Mark { // registered before the snapshot, which therefore misses no later change
			s.Changes.KeepAlive()
		}
		parts, err := s.snapshots.Begin(ctx, w.ID, s.Host.Replicas())
		if err != nil {
			return nil, err
		}
		return json.Marshal(parts)
	case "seal":
		return nil, s.snapshots.Seal(ctx, w.ID)
	case "drop":
		s.snapshots.Drop(w.ID)
		return nil, nil
	case "page":
		return s.snapshots.Page(ctx, &w.FileRequest)
	case "entries":
		return s.bufferedChanges(w.Entries)
	}
	return nil, fmt.Errorf("unknown backup request %q: this node runs an older version", w.Op)
}

// requestAll sends a request to all nodes in parallel and returns the first error. It calls take with one response at
// a time. After an error, it does not wait for the other nodes, unless the request drops a snapshot. Writers wait
// while a snapshot is being taken.
func (s *Server) requestAll(ctx context.Context, w *nodeRequest,
	take func(node topology.NodeID, response []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotset.PauseMax)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for _, node := range append(s.Queries.LiveNodes(), s.Identity.Node) {
		wg.Go(func() {
			response, err := s.request(ctx, node, w)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && take != nil {
				err = take(node, response)
			}
			if err == nil || failure != nil {
				return
			}
			failure = fmt.Errorf("node %s: %w", node.Short(), err)
			if w.Op != "drop" {
				cancel()
			}
		})
	}
	wg.Wait()
	return failure
}

func (s *Server) dropSnapshot(ctx context.Context, id string) {
	drop := &nodeRequest{Op: "drop", FileRequest: archive.FileRequest{ID: id}}
	_ = s.requestAll(context.WithoutCancel(ctx), drop, nil)
	// A node that does not receive the request drops the snapshot after a period without reads.
}
