// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// routedRequest is the routing and retry state of one command. It selects the next replica, decides whether to retry,
// and determines the error for the client. It blocks only in waitToRetry.
//
// The leader is determined from the best available source. The sources are a response to this command (leaderHint), the
// replica on this node, and the last success or LeaderChanged (route). If the leader is unknown, the replicas are tried
// in the order of the topology, because each replica is the leader or knows the leader.
type routedRequest struct {
	c        *Coordinator
	level    dberr.Consistency
	who      fairshare.Principal
	began    time.Time
	deadline time.Time
	// bootStart is the boot clock's time at the start of a conditional write. For other commands, bootStart is 0. While
	// the machine is suspended, the boot clock advances, but the clock of the deadline does not.
	bootStart time.Duration
	pause     time.Duration
	// anyReplica allows any single replica to serve the request. localFollower allows the local follower to serve the
	// request after it has contacted the leader. localRefused is true if the local replica has rejected the request.
	anyReplica, localFollower, localRefused bool
	// timeouts counts the attempts that reached their deadlines.
	timeouts int
	// immediateRetries counts consecutive retries without a delay.
	immediateRetries int
	// required is the number of replicas that the last attempt needed.
	required int
	dedupe
	routing
	queueing
}

// dedupe holds the state that prevents a write from being applied twice if it is sent several times. See setDedupe.
type dedupe struct {
	// localEpoch is the dedupe epoch of this node when a write started.
	localEpoch uint64
	// maybeApplied is true if an attempt may have been applied.
	maybeApplied bool
	// dedupeEpoch is the epoch that dedupeNode reported when it rejected an attempt. At the time of the rejection, no
	// attempt could have been applied.
	dedupeEpoch uint64
	dedupeNode  topology.NodeID
}

// routing holds information from earlier attempts that determines the next target.
type routing struct {
	// leaderHint is the leader according to the last response. exclude is a node that could not respond. The next
	// attempt skips this node.
	leaderHint, exclude topology.NodeID
	// timedOutNode is a node on which an attempt has reached its deadline. The node receives no attempts before
	// backoffUntil, even if another node reports that it is the leader. In the meantime, a new leader may be elected.
	timedOutNode topology.NodeID
	backoffUntil time.Time
	// unreachable is a node that could not be reached. relay is the node that reported leaderHint. relay has recently
	// been in contact with the leader and may forward the request.
	unreachable, relay topology.NodeID
	nextVoter          int
}

// queueing is the state of a request that waits for a throttled partition.
type queueing struct {
	// throttleDeadline is the time until which the request may wait for a throttled partition, or zero if the request
	// must not wait. blocking reports whether a goroutine blocks on the request. slot is the request's position in the
	// queue. retryAfter is the delay that the partition has requested.
	throttleDeadline time.Time
	blocking         bool
	slot             *slot
	retryAfter       time.Duration
}

// target is the target replica of an attempt.
type target struct {
	sched *sched.Scheduler
	// cluster and id are used to look up a local replica that was created after target.
	cluster *cluster
	id      topology.PartitionID
	member  Member
	node    topology.NodeID
	// local is the partition's replica on this node, or nil. local is set even if the request is sent to another
	// replica.
	local  Local
	remote bool
	// via is the node that relays the request, or zero if the request is not relayed.
	via topology.NodeID
	// follower is true if the local replica must contact the leader before it serves the request.
	follower bool
	route    *route
}

func (c *Coordinator) newRequest(level dberr.Consistency, limit time.Duration) routedRequest {
	now := c.sched.Now()
	e := routedRequest{c: c, level: level, began: now, deadline: now.Add(limit)}
	if wait := c.opts.ThrottledWait; wait > 0 {
		e.throttleDeadline = now.Add(min(wait, limit*9/10)) // the error must be returned before the request's deadline
	}
	return e
}

// capDeadline sets the deadline to the earlier of the current deadline and the given time.
func (e *routedRequest) capDeadline(deadline time.Time) {
	if !deadline.Before(e.deadline) {
		return
	}
	e.deadline = deadline
	if latest := e.began.Add(deadline.Sub(e.began) * 9 / 10); e.throttleDeadline.After(latest) {
		e.throttleDeadline = latest
	}
}

// setDedupe sets the dedupe fields of a write. The fields contain whether an earlier attempt may have been applied, and
// the dedupe epoch that the target had reported before that attempt. The replica uses the fields to verify that the
// write has not been applied. The first attempt on another node also needs these fields. A delayed first attempt may
// arrive after later attempts, at a replica that does not know the later attempts.
func (e *routedRequest) setDedupe(m *command.Mutation, t *target) {
	m.Retried, m.Sent, m.Known = e.maybeApplied, t.remote && !e.maybeApplied, 0
	switch {
	case t.remote && t.node == e.dedupeNode:
		m.Known = e.dedupeEpoch
	case t.remote:
		m.Known = e.c.cluster.Peers.Memory(t.node, e.began)
	case e.maybeApplied:
		m.Known = e.localEpoch
	}
}

// attemptDeadline returns the deadline of an attempt on another node. An attempt may use a third of the total time, so
// that a stopped process does not use up the request's time. After two timeouts, an attempt may use all remaining time.
func (e *routedRequest) attemptDeadline() time.Time {
	if e.timeouts >= 2 {
		return e.deadline
	}
	until := e.c.sched.Now().Add(e.deadline.Sub(e.began) / 3)
	if until.After(e.deadline) {
		return e.deadline
	}
	return until
}

// pickReplica selects the replica for the next attempt. It returns errNoReplica, which may be temporary, or
// *dberr.Unavailable.
func (e *routedRequest) pickReplica(v *view, p *topology.Partition) (target, error) {
	cl := e.c.cluster
	t := target{sched: e.c.sched, cluster: cl, id: p.ID, local: cl.local.Replica(p.ID), route: v.routes[p.ID]}
	home := topology.HomeSet(v.snapshot, p)
	if t.route == nil {
		t.route = new(route) // the partition belongs to no table
	}
	avoid := e.exclude
	e.exclude = topology.NodeID{}
	if e.anyReplica {
		e.required = 1
		if t.local != nil && !e.localRefused && t.local.Throughput().AllowsLocalRead(e.who) {
			return t.toNode(cl, cl.Node, p)
		}
	}
	if e.useRelay(&t, avoid) {
		return t.viaRelay(cl, e, home), nil
	}
	node, known := e.knownLeader(&t, avoid)
	if known && e.localFollower && !e.anyReplica && !e.localRefused && t.local != nil && node != cl.Node &&
		t.local.Throughput().AllowsLocalRead(e.who) {
		t.follower, node = true, cl.Node
	}
	if !e.anyReplica || !known {
		required := quorum(home)
		if !e.anyReplica {
			e.required = required
		}
		if !known && !e.maybeApplied {
			if alive := cl.alive(home); alive < required {
				if e.anyReplica {
					alive = 0 // live replicas cannot serve the request without a leader
				}
				return t, &dberr.Unavailable{Level: e.level, Required: e.required, Alive: alive}
			}
		}
	}
	if !known {
		if node, known = e.voterInOrder(&t, home, avoid); !known {
			return t, errNoReplica
		}
	}
	return t.toNode(cl, node, p)
}

// levelAt returns the consistency level of the next attempt. At ONE, the local replica may serve the request without
// contacting the leader, because it has applied all writes acknowledged to this node. A replica on another node does
// not know which writes were acknowledged to this node, so only the leader may serve the request.
func (e *routedRequest) levelAt(t *target) dberr.Consistency {
	if e.anyReplica && t.remote {
		return dberr.Quorum
	}
	return e.level
}

// toNode returns the target with the replica on a node.
func (t target) toNode(cl *cluster, node topology.NodeID, p *topology.Partition) (target, error) {
	t.node = node
	if node == cl.Node {
		t.member = t.local
		return t, nil
	}
	t.remote, t.member = true, cl.member(t.route, node, p.ID)
	return t, nil
}

// useRelay reports whether to send the request to leaderHint through relay. The relay is the node that has just
// reported the leader, or the node through which the leader was last reached.
func (e *routedRequest) useRelay(t *target, avoid topology.NodeID) bool {
	cl, none := e.c.cluster, topology.NodeID{}
	if cl.singleNode() || t.local != nil && t.local.Leading() {
		return false
	}
	if r := t.route.relayHint.Load(); r != nil && (e.leaderHint == none || e.leaderHint == r.node) && r.node != avoid &&
		r.via != avoid {
		if e.c.sched.Now().Before(r.until) && cl.isAlive(r.via) {
			e.leaderHint, e.relay = r.node, r.via
			return true
		}
		t.route.relayHint.CompareAndSwap(r, nil)
	}
	if cl.Relays == nil || e.leaderHint == none || e.relay == none || e.leaderHint == cl.Node ||
		e.leaderHint == avoid || !cl.isAlive(e.relay) {
		return false
	}
	return e.leaderHint == e.unreachable || e.leaderHint == e.timedOutNode || !cl.isAlive(e.leaderHint)
}

// viaRelay returns the target for a request to leaderHint through relay.
func (t target) viaRelay(cl *cluster, e *routedRequest, home *topology.ReplicaSet) target {
	t.node, t.via, t.remote = e.leaderHint, e.relay, true
	t.member = cl.Relays.Via(t.via, t.node, t.id)
	e.leaderHint, e.relay, e.unreachable = topology.NodeID{}, topology.NodeID{}, topology.NodeID{}
	if !e.anyReplica {
		e.required = quorum(home)
	}
	return t
}

// knownLeader returns the leader that is known to this node if the leader is eligible.
func (e *routedRequest) knownLeader(t *target, avoid topology.NodeID) (topology.NodeID, bool) {
	next := e.leaderHint
	e.leaderHint = topology.NodeID{}
	if e.eligible(t, next, avoid) {
		return next, true
	}
	if t.local != nil {
		if t.local.Leading() && e.eligible(t, e.c.cluster.Node, avoid) {
			return e.c.cluster.Node, true
		}
		if node, ok := t.local.Leader(); ok && e.eligible(t, node, avoid) {
			return node, true
		}
	}
	if node := t.route.leader.Load(); node != nil && e.eligible(t, *node, avoid) {
		return *node, true
	}
	return topology.NodeID{}, false
}

// eligible reports whether the next attempt may use a node.
func (e *routedRequest) eligible(t *target, node, avoid topology.NodeID) bool {
	cl := e.c.cluster
	switch node {
	case topology.NodeID{}, avoid:
		return false
	case cl.Node:
		return t.local != nil
	case e.timedOutNode:
		if e.c.sched.Now().Before(e.backoffUntil) {
			return false
		}
	}
	return !cl.singleNode() && cl.isAlive(node)
}

// voterInOrder returns the next voter of a replica set. The first voter is the leader that the topology contains. set
// may be nil.
func (e *routedRequest) voterInOrder(t *target, set *topology.ReplicaSet, avoid topology.NodeID) (topology.NodeID,
	bool) {
	if set == nil {
		return topology.NodeID{}, false
	}
	n := len(set.Replicas)
	first := 0
	for i := range set.Replicas {
		if set.Replicas[i].ID == set.Leader {
			first = i
		}
	}
	for range n {
		r := &set.Replicas[(first+e.nextVoter)%n]
		node := r.Node
		e.nextVoter++
		if r.State.Votes() && e.eligible(t, node, avoid) {
			return node, true
		}
	}
	return topology.NodeID{}, false
}

// handleFailure processes the outcome of an attempt and reports whether to retry.
func (e *routedRequest) handleFailure(t *target, err error) bool {
	if e.enqueueThrottled(t, err) {
		return true
	}
	e.leaveQueue()
	why, leader := classify(err)
	if e.maybeApplied && why == final && overloaded(err) {
		why = busy // the error states that the request had no effect, but an earlier attempt may have had an effect
	}
	if why == final {
		return false
	}
	e.c.stats.reasons[why].Add(1)
	switch why {
	case notLeader:
		e.exclude = t.node
		if leader != t.node {
			e.leaderHint, e.relay = leader, topology.NodeID{}
			if t.remote && t.via == (topology.NodeID{}) {
				e.relay = t.node
			}
		}
		t.forgetLeader()
	case moved:
		// The replica has been moved, and the node does not know the leader. The hint must be removed because no other
		// node may correct it.
		if t.remote && errors.Is(err, partition.ErrClosed) {
			e.exclude = t.node
			t.forgetLeader()
		}
	case unreachable:
		if e.exclude, e.unreachable = t.node, t.node; t.via != (topology.NodeID{}) {
			e.exclude = t.via
		}
		t.forgetLeader()
	case dedupeUnknown:
		e.recordDedupeEpoch(t, err)
	case unknown:
		e.maybeApplied = true
		if t.remote && errors.Is(err, context.DeadlineExceeded) {
			e.timeouts++
			e.timedOutNode, e.backoffUntil = t.node, e.c.sched.Now().Add(e.deadline.Sub(e.began)/3)
		}
		if !inProgress(err) {
			e.exclude = t.node
			t.forgetLeader()
		}
	}
	if (e.anyReplica || t.follower) && t.local != nil && !t.remote {
		e.localRefused = true
	}
	return true
}

// recordDedupeEpoch stores the dedupe epoch that a node has reported. The next attempt is sent to the same node without
// a delay.
func (e *routedRequest) recordDedupeEpoch(t *target, err error) {
	f, _ := errors.AsType[*partition.DedupeUnknown](err)
	if e.dedupeNode, e.dedupeEpoch = t.node, f.Epoch; t.via == (topology.NodeID{}) {
		e.leaderHint, e.relay = t.node, topology.NodeID{}
	}
}

// noteAcknowledged notifies the local replica that another replica has acknowledged an index. The local replica may
// have been created after the request was sent.
func (t *target) noteAcknowledged(index uint64) {
	if !t.remote || index == 0 {
		return
	}
	here := t.local
	if here == nil {
		here = t.cluster.local.Replica(t.id)
	}
	if here != nil {
		here.NoteAcknowledged(index)
	}
}

// forgetLeader removes the hint that the target node is the leader.
func (t *target) forgetLeader() {
	if t.route == nil {
		return
	}
	if old := t.route.leader.Load(); old != nil && *old == t.node {
		t.route.leader.CompareAndSwap(old, nil)
	}
	if t.via != (topology.NodeID{}) {
		t.route.relayHint.Store(nil)
	}
}

// succeeded records which replica has responded.
func (e *routedRequest) succeeded(t *target) {
	e.leaveQueue()
	if !e.anyReplica && !t.follower {
		t.route.learn(t.node)
	}
	if t.via != (topology.NodeID{}) && t.route.relayHint.Load() == nil {
		t.route.relayHint.Store(&relayHint{t.node, t.via, e.c.sched.Now().Add(relayHintTTL)})
	}
}

// immediateRetriesMax is the maximum number of consecutive retries without a delay. The limit prevents an endless loop
// between two replicas that each report the other replica as the leader.
const immediateRetriesMax = 2

// waitToRetry returns nil when it is time to retry. It waits until a leader is known, the topology has changed, or a
// delay has passed. If a retry is not possible, waitToRetry returns an error.
func (e *routedRequest) waitToRetry(ctx context.Context, t *target, seen *view) error {
	e.c.stats.retries.Add(1)
	if e.slot != nil {
		return e.awaitTurn(ctx)
	}
	left := e.c.sched.Until(e.deadline)
	if e.bootStart != 0 {
		left = min(left, e.bootStart+e.deadline.Sub(e.began)-e.c.sched.Boot())
	}
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if (e.leaderHint != topology.NodeID{}) && e.immediateRetries < immediateRetriesMax {
		e.immediateRetries++
		return ctx.Err()
	}
	e.immediateRetries = 0
	e.pause = min(max(2*e.pause, retryPauseMin), retryPauseMax)
	var led <-chan struct{}
	if t.route != nil {
		led = t.route.changed()
	}
	return e.c.sched.Sleep(ctx, min(e.pause, left), seen.changed, led)
}

// noteAt adds a message such as "read physical partition 3 of table ks.t at node <name>" to a trace. For a single-node
// cluster, the message does not contain the node.
func (c *Coordinator) noteAt(tr *trace.Trace, what string, p *topology.Partition, t *target) {
	c.stats.touched.Add(1)
	if t.remote {
		c.stats.forwarded.Add(1)
		if t.local == nil {
			c.stats.misrouted.Add(1)
		}
	}
	if tr == nil {
		return
	}
	text := what + " physical partition " + strconv.FormatUint(uint64(p.ID), 10) + " of table " +
		c.tableName(p.Table)
	if !c.cluster.singleNode() {
		text += " at node " + c.cluster.Network.Address(t.node)
	}
	if t.via != (topology.NodeID{}) {
		text += " by way of node " + c.cluster.Network.Address(t.via)
	}
	tr.Add(text)
}

// noteCharge adds the cost of a request to the trace. The cost applies to one physical partition.
func noteCharge(tr *trace.Trace, at topology.PartitionID, u ru.Units) {
	if tr != nil && u > 0 {
		tr.Add("Charged " + u.String() + " RU at physical partition " + strconv.FormatUint(uint64(at), 10))
	}
}

// run executes the request on the calling goroutine. do must block until the outcome is known or its context ends.
func (e *routedRequest) run(ctx context.Context, what string, locate func(*view) *topology.Partition,
	do func(context.Context, *target, *topology.Partition) error) error {
	tr := trace.From(ctx)
	defer e.leaveQueue()
	for {
		v := e.c.view.Load()
		p := locate(v)
		if p == nil {
			return ErrUnknownTable
		}
		t, err := e.pickReplica(v, p)
		if err == nil {
			err = e.queuedError(&t)
		}
		if err == nil {
			e.c.noteAt(tr, what, p, &t)
			err = e.attemptOnce(ctx, &t, p, do)
		}
		if err == nil {
			e.succeeded(&t)
			return nil
		}
		if ctx.Err() != nil || !e.handleFailure(&t, err) || e.waitToRetry(ctx, &t, v) != nil {
			return err
		}
	}
}

// attemptOnce makes one attempt with its own deadline.
func (e *routedRequest) attemptOnce(ctx context.Context, t *target, p *topology.Partition,
	do func(context.Context, *target, *topology.Partition) error) error {
	until := e.deadline
	if t.remote {
		until = e.attemptDeadline()
	}
	ctx, cancel := e.c.sched.WithDeadline(ctx, until)
	defer cancel()
	return do(ctx, t, p)
}
