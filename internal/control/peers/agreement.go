// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"sync"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Versions holds the metadata version and the schema version of a node.
type Versions struct {
	Records uint64   `json:"records"`
	Schema  [16]byte `json:"schema"`
}

// AwaitAgreement waits until every live node has a version of the metadata and knows that all other nodes have this
// version, because a driver may query any node for the schema agreement. It returns the nodes that have not confirmed
// this before ctx ended.
func (p *Peers) AwaitAgreement(ctx context.Context, version uint64) (missing []topology.NodeID) {
	var mu sync.Mutex
	p.eachAlive(func(n topology.NodeID) {
		if err := p.awaitVersion(ctx, n, AwaitRequest{Version: version, Others: true}); err != nil {
			mu.Lock()
			missing = append(missing, n)
			mu.Unlock()
		}
	})
	return missing
}

// SendAcknowledged sends all live nodes the acknowledged log positions of partitions. It waits for the responses up to
// the timeout of AcknowledgedCall. A node that is disconnected for longer does not serve local reads.
func (p *Peers) SendAcknowledged(ctx context.Context, to map[topology.PartitionID]uint64) {
	p.eachAlive(func(n topology.NodeID) { _, _ = AcknowledgedCall.Do(ctx, &p.client, n, Acknowledged{to}) })
}

// SetVersion records that this node has a version of the metadata with a new schema. Run then polls the other nodes for
// this version immediately. SetVersion does not block.
func (p *Peers) SetVersion(version uint64) {
	p.mu.Lock()
	p.targetVersion, p.pending = max(p.targetVersion, version), true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// AwaitVersion waits until every live node that responds has a version of the metadata, or until ctx ends. SetVersion
// must have been called for this version.
func (p *Peers) AwaitVersion(ctx context.Context, version uint64) {
	for {
		p.mu.Lock()
		changed, left := p.changed, p.pending
		for _, q := range p.peers {
			left = left || q.down.IsZero() && q.report.Records < version && q.polling
		}
		p.mu.Unlock()
		if !left {
			return
		}
		if _, err := sched.Await(p.opts.Sched, ctx, changed, 0); err != nil {
			return
		}
	}
}

// pollVersions polls all nodes for the target version until ctx ends, with one goroutine per node.
func (p *Peers) pollVersions(ctx context.Context) {
	wg := p.group()
	defer wg.Wait()
	for {
		if _, err := sched.Await(p.opts.Sched, ctx, p.wake, 0); err != nil {
			return
		}
		nodes := p.nodes()
		p.mu.Lock()
		p.pending = false
		for _, n := range nodes {
			q := p.peers[n]
			if q != nil && q.down.IsZero() && !q.polling && q.report.Records < p.targetVersion {
				q.polling = true
				wg.Go(func() { p.pollVersion(ctx, n, q) })
			}
		}
		p.signal()
		p.mu.Unlock()
	}
}

// pollVersion polls a node for the target version until the node has this version or does not respond.
func (p *Peers) pollVersion(ctx context.Context, n topology.NodeID, q *peer) {
	for answered := true; ; {
		p.mu.Lock()
		version := p.targetVersion
		if q.report.Records >= version || !answered {
			q.polling = false
			p.signal()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		answered = p.awaitVersion(ctx, n, AwaitRequest{Version: version}) == nil
	}
}

// awaitVersion waits until a node has a version of the metadata, and records the version.
func (p *Peers) awaitVersion(ctx context.Context, n topology.NodeID, question AwaitRequest) error {
	s, err := AwaitCall.Do(ctx, &p.client, n, question)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.peers[n]; q != nil && s.Records > q.report.Records {
		q.report.Records, q.report.Schema = s.Records, s.Schema
		p.signal()
	}
	return nil
}

// signal wakes all goroutines that wait for a change of a node. The caller must hold mu.
func (p *Peers) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}
