// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

const (
	// askTimeout bounds one attempt to reach a node of the cluster that is to be joined, joinPause is the pause between
	// attempts.
	askTimeout = 5 * time.Second
	joinPause  = 500 * time.Millisecond
	// askSoon is that bound in the first round: one that is itself looking for the cluster does not answer, and others
	// may.
	askSoon = 500 * time.Millisecond
	// joinAttempts is how often a cluster is asked that answers with errors, twinAttempts how often one that knows the
	// node from another process.
	joinAttempts = 20
	twinAttempts = 10
)

// Network is how a node reaches others; *transport.Transport is one.
type Network interface {
	peers.Caller
	// Discover connects to the node at an address and returns its identity.
	Discover(ctx context.Context, address string) (transport.Peer, error)
	// SetAddress says where a node is.
	SetAddress(node topology.NodeID, address string)
	// Forget gives up the connections to a node that is gone for good.
	Forget(node topology.NodeID)
}

// Ask returns the cluster of the node at an address. The node that asks needs no identity for that.
type Ask func(ctx context.Context, address string) (transport.ClusterID, error)

// Seeker finds the cluster that is to be joined. Its fields are set before it is used.
type Seeker struct {
	// Addresses are internal addresses of other nodes.
	Addresses []string
	Ask       Ask
	Log       *slog.Logger
	// Sched is what it waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Seek learns the id of the cluster that is to be joined from the first node that answers, however long that takes. It
// gives up where waiting is of no use.
func (k *Seeker) Seek(ctx context.Context) (transport.ClusterID, error) {
	if len(k.Addresses) == 0 {
		return transport.ClusterID{}, errOnlySelf
	}
	said := quiet{sched: k.Sched}
	for patience := askSoon; ; patience = min(2*patience, askTimeout) {
		var errs []error
		for _, address := range k.Addresses {
			ask, cancel := k.Sched.WithTimeout(ctx, patience)
			id, err := k.Ask(ask, address)
			cancel()
			if err == nil {
				return id, nil
			}
			errs = append(errs, explain(err))
		}
		err := errors.Join(errs...)
		if hopeless(err) {
			return transport.ClusterID{}, fmt.Errorf("no node of the cluster answers: %s", oneLine(err))
		}
		if said.allow("") {
			k.Log.LogAttrs(ctx, slog.LevelWarn, "waiting for a node of the cluster to answer",
				slog.Any("join", k.Addresses), slog.String("error", oneLine(err)))
		}
		if err := k.Sched.Sleep(ctx, joinPause); err != nil {
			return transport.ClusterID{}, err
		}
	}
}

// Joining is the way of a node into its cluster, and back into it after a restart. Its fields are set before it is
// used.
type Joining struct {
	Seeker
	// Cluster is the one that the node belongs to, Self its record.
	Cluster transport.ClusterID
	Self    func() *meta.Node
	Network Network
	Records *meta.Keeper
	// Host gets the node's replica of the meta partition.
	Host interface {
		Join(id topology.PartitionID, replica topology.ReplicaID) error
	}
}

// Run has the cluster take this node in, unless known says that it has, and waits until it has the cluster's records.
func (j *Joining) Run(ctx context.Context, known bool) error {
	if !known {
		if err := j.enter(ctx); err != nil {
			return err
		}
	}
	if known && j.Records.State().Version > 0 {
		me := j.Self()
		if self := j.Records.State().Node(me.ID); self != nil && self.Region != me.Region {
			return fmt.Errorf("the node is in region %q, where its replicas are: start it with --region %s; "+
				"a node of another region is a new one, on an empty directory", self.Region, self.Region)
		}
		return j.checkAlone(ctx)
	}
	return j.awaitRecords(ctx, known)
}

// enter asks to be taken in until that happens or is refused.
func (j *Joining) enter(ctx context.Context) error {
	said := quiet{sched: j.Sched}
	for attempt := 0; ; attempt++ {
		err := j.introduce(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final(err, attempt) {
			return fmt.Errorf("the cluster does not take the node in: %s", oneLine(err))
		}
		if said.allow("") {
			j.Log.LogAttrs(ctx, slog.LevelWarn, "waiting to be taken in by the cluster",
				slog.String("error", oneLine(err)))
		}
		if err := j.Sched.Sleep(ctx, joinPause); err != nil {
			return err
		}
	}
}

// final reports whether asking another time would be in vain, so many attempts after the first.
func final(err error, attempt int) bool {
	remote, refusal := (*transport.RemoteError)(nil), (*peers.Refusal)(nil)
	return errors.As(err, &refusal) || hopeless(err) || errors.As(err, &remote) && attempt > joinAttempts ||
		errors.Is(err, transport.ErrDuplicateNode) && attempt > twinAttempts
}

// introduce asks one node of the cluster after the other to take this one in.
func (j *Joining) introduce(ctx context.Context) error {
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
			if node != j.Self().ID {
				j.Network.SetAddress(node, at)
			}
		}
		return j.Host.Join(topology.MetaPartition, w.Replica)
	}
	return errors.Join(errs...)
}

func (j *Joining) ask(ctx context.Context, address string) (peers.Welcome, error) {
	ctx, cancel := j.Sched.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := j.Network.Discover(ctx, address)
	if err != nil {
		return peers.Welcome{}, err
	}
	return peers.Join(ctx, j.Network, p.Node, newcomer(j.Self()))
}

// discover connects to the node at an address, so that each knows where the other is.
func (j *Joining) discover(ctx context.Context, address string) error {
	ctx, cancel := j.Sched.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := j.Network.Discover(ctx, address)
	return err
}

// awaitRecords waits until the cluster's records are here, which the leader of the meta partition sends. A node that
// was taken in and stopped before they came knows nobody else when it starts again.
func (j *Joining) awaitRecords(ctx context.Context, again bool) error {
	for j.Records.State().Version == 0 {
		for _, address := range j.Addresses {
			if again {
				_ = j.discover(ctx, address) // a node that cannot be found may still find this one
			}
		}
		wait, cancel := j.Sched.WithTimeout(ctx, quietTime)
		_, err := j.Records.Wait(wait, 1)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			j.Log.LogAttrs(ctx, slog.LevelWarn,
				"waiting for the records of the cluster, which the other nodes send here",
				slog.String("address", j.Self().Internal))
		}
	}
	return nil
}

// checkAlone refuses to go on as a cluster of one node when another cluster was to be joined: both were founded with
// --bootstrap.
func (j *Joining) checkAlone(ctx context.Context) error {
	if len(j.Records.State().Nodes) != 1 {
		return nil
	}
	for _, address := range j.Addresses {
		ask, cancel := j.Sched.WithTimeout(ctx, askTimeout)
		id, err := j.Ask(ask, address)
		cancel()
		if err == nil && id != j.Cluster {
			return fmt.Errorf("the data directory is a cluster of its own, founded with --bootstrap, and %s is a node of another one: "+
				"start on an empty directory to join that, or without --join to go on with this", address)
		}
	}
	return nil
}

// Greet looks for other nodes at the addresses that were given to join by, for the case that all nodes are elsewhere
// since they stopped.
func (j *Joining) Greet(ctx context.Context) {
	for _, address := range j.Addresses {
		for range joinAttempts {
			err := j.discover(ctx, address)
			if err == nil || hopeless(err) {
				break
			}
			if j.Sched.Sleep(ctx, joinPause) != nil {
				return
			}
		}
	}
}
