// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/lograte"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

const (
	// attemptTimeout is the time limit of one attempt to reach a node of the cluster. joinPause is the pause between
	// attempts.
	attemptTimeout = 5 * time.Second
	joinPause      = 500 * time.Millisecond
	// firstAttemptTimeout is the time limit of the attempts in the first round. It is short because a node that is
	// searching for the cluster does not respond, but other nodes may respond.
	firstAttemptTimeout = 500 * time.Millisecond
	// joinAttempts is the maximum number of attempts if the cluster responds with errors. duplicateAttempts is the
	// maximum number of attempts if another process of the node is connected to the cluster.
	joinAttempts      = 20
	duplicateAttempts = 10
)

// Network connects to other nodes. *transport.Transport implements it.
type Network interface {
	rpc.Caller
	// Discover connects to the node at an address and returns its identity.
	Discover(ctx context.Context, address string) (transport.Peer, error)
	// SetAddress sets the address of a node.
	SetAddress(node topology.NodeID, address string)
	// Forget closes the connections to a node that has permanently left the cluster.
	Forget(node topology.NodeID)
}

// ClusterQuery returns the cluster ID of the node at an address. The caller needs no identity.
type ClusterQuery func(ctx context.Context, address string) (transport.ClusterID, error)

// ClusterFinder finds the cluster to join. The caller must set the exported fields before use.
type ClusterFinder struct {
	// Addresses holds internal addresses of other nodes.
	Addresses    []string
	QueryCluster ClusterQuery
	Log          *slog.Logger
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// FindCluster returns the ID of the cluster to join from the first node that responds. It waits indefinitely unless an
// error is permanent.
func (k *ClusterFinder) FindCluster(ctx context.Context) (transport.ClusterID, error) {
	if len(k.Addresses) == 0 {
		return transport.ClusterID{}, errOnlySelf
	}
	warnings := lograte.Limiter{Sched: k.Sched}
	for timeout := firstAttemptTimeout; ; timeout = min(2*timeout, attemptTimeout) {
		var errs []error
		for _, address := range k.Addresses {
			ask, cancel := k.Sched.WithTimeout(ctx, timeout)
			id, err := k.QueryCluster(ask, address)
			cancel()
			if err == nil {
				return id, nil
			}
			errs = append(errs, explain(err))
		}
		err := errors.Join(errs...)
		if isPermanent(err) {
			return transport.ClusterID{}, fmt.Errorf("no cluster node responds: %s", oneLine(err))
		}
		if warnings.Allow("") {
			k.Log.LogAttrs(ctx, slog.LevelWarn, "waiting for a cluster node to respond",
				slog.Any("join", k.Addresses), slog.String("error", oneLine(err)))
		}
		if err := k.Sched.Sleep(ctx, joinPause); err != nil {
			return transport.ClusterID{}, err
		}
	}
}

// Joiner joins a node to its cluster and reconnects the node after a restart. The caller must set the exported fields
// before use.
type Joiner struct {
	ClusterFinder
	// Cluster is the cluster of the node.
	Cluster  transport.ClusterID
	Node     Node
	Network  Network
	Metadata *meta.Keeper
	// Host creates the node's replica of the meta partition.
	Host interface {
		Join(id topology.PartitionID, replica topology.ReplicaID) error
	}
}

// Run waits until the node has the cluster's metadata. Unless known is set, it first requests the admission of the
// node.
func (j *Joiner) Run(ctx context.Context, known bool) error {
	if !known {
		if err := j.requestJoin(ctx); err != nil {
			return err
		}
	}
	if known && j.Metadata.State().Version > 0 {
		me := j.Node.Record()
		if self := j.Metadata.State().Node(me.ID); self != nil && self.Region != me.Region {
			return fmt.Errorf("the node and its replicas are in region %q: start it with --region %s; "+
				"to add a node in another region, start it on an empty directory", self.Region, self.Region)
		}
		return j.checkOtherClusters(ctx)
	}
	return j.awaitMetadata(ctx, known)
}

// requestJoin requests admission until the node is admitted or rejected.
func (j *Joiner) requestJoin(ctx context.Context) error {
	warnings := lograte.Limiter{Sched: j.Sched}
	for attempt := 0; ; attempt++ {
		err := j.tryAddresses(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if giveUp(err, attempt) {
			return fmt.Errorf("cannot join cluster: %s", oneLine(err))
		}
		if warnings.Allow("") {
			j.Log.LogAttrs(ctx, slog.LevelWarn, "waiting for admission to the cluster",
				slog.String("error", oneLine(err)))
		}
		if err := j.Sched.Sleep(ctx, joinPause); err != nil {
			return err
		}
	}
}

// giveUp reports whether another attempt is useless. attempt is the number of previous retries.
func giveUp(err error, attempt int) bool {
	remote, refusal := (*transport.RemoteError)(nil), (*peers.JoinRejectedError)(nil)
	return errors.As(err, &refusal) || isPermanent(err) || errors.As(err, &remote) && attempt > joinAttempts ||
		errors.Is(err, transport.ErrDuplicateNode) && attempt > duplicateAttempts
}

// tryAddresses requests admission from the known nodes, one after the other.
func (j *Joiner) tryAddresses(ctx context.Context) error {
	if len(j.Addresses) == 0 {
		return errOnlySelf
	}
	var errs []error
	for _, address := range j.Addresses {
		w, err := j.ask(ctx, address)
		if err != nil {
			errs = append(errs, explain(err))
			continue
		}
		for at, node := range w.Nodes {
			if node != j.Node.Record().ID {
				j.Network.SetAddress(node, at)
			}
		}
		return j.Host.Join(topology.MetaPartition, w.Replica)
	}
	return errors.Join(errs...)
}

func (j *Joiner) ask(ctx context.Context, address string) (peers.JoinResponse, error) {
	ctx, cancel := j.Sched.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	p, err := j.Network.Discover(ctx, address)
	if err != nil {
		return peers.JoinResponse{}, err
	}
	return peers.Join(ctx, &rpc.Client{Caller: j.Network, Sched: j.Sched}, p.Node, joinRequest(j.Node.Record()))
}

// discover connects to the node at an address, so that both nodes learn each other's addresses.
func (j *Joiner) discover(ctx context.Context, address string) error {
	ctx, cancel := j.Sched.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := j.Network.Discover(ctx, address)
	return err
}

// awaitMetadata waits for the metadata from the leader of the meta partition. If again is set, it also connects to the
// known addresses, because a node that stopped before it received the metadata knows no other nodes.
func (j *Joiner) awaitMetadata(ctx context.Context, again bool) error {
	for j.Metadata.State().Version == 0 {
		for _, address := range j.Addresses {
			if again {
				_ = j.discover(ctx, address) // an unreachable node may still reach this node
			}
		}
		wait, cancel := j.Sched.WithTimeout(ctx, lograte.Interval)
		_, err := j.Metadata.Wait(wait, 1)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			j.Log.LogAttrs(ctx, slog.LevelWarn,
				"waiting for the cluster metadata from other nodes",
				slog.String("address", j.Node.Record().Internal))
		}
	}
	return nil
}

// checkOtherClusters returns an error if this node is the only node of its cluster and --join contains a node of
// another cluster. Both clusters were then created with --bootstrap.
func (j *Joiner) checkOtherClusters(ctx context.Context) error {
	if len(j.Metadata.State().Nodes) != 1 {
		return nil
	}
	for _, address := range j.Addresses {
		ask, cancel := j.Sched.WithTimeout(ctx, attemptTimeout)
		id, err := j.QueryCluster(ask, address)
		cancel()
		if err == nil && id != j.Cluster {
			return fmt.Errorf("the data directory belongs to a one-node cluster created with --bootstrap, and %s to "+
				"another cluster: "+
				"start on an empty directory to join that cluster, or without --join to keep this one", address)
		}
	}
	return nil
}

// DiscoverPeers connects to the addresses in --join, because all nodes may have changed their addresses since they
// stopped.
func (j *Joiner) DiscoverPeers(ctx context.Context) {
	for _, address := range j.Addresses {
		for range joinAttempts {
			err := j.discover(ctx, address)
			if err == nil || isPermanent(err) {
				break
			}
			if j.Sched.Sleep(ctx, joinPause) != nil {
				return
			}
		}
	}
}
