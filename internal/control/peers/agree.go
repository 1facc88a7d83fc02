// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"sync"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Standing is how far a node is: the version of the cluster's records that it has, and that of the schema.
type Standing struct {
	Records uint64   `json:"records"`
	Schema  [16]byte `json:"schema"`
}

// Agree waits until every node that is alive has the version of the cluster's records, and knows of all others that
// they have it: a driver may ask any of them whether the nodes agree. It returns those that did not say so before ctx
// ended.
func (p *Peers) Agree(ctx context.Context, version uint64) (missing []topology.NodeID) {
	var mu sync.Mutex
	wg := p.group()
	for _, n := range p.nodes() {
		if !p.Alive(n) {
			continue
		}
		wg.Go(func() {
			if err := p.await(ctx, n, awaitRequest{Version: version, Others: true}); err != nil {
				mu.Lock()
				missing = append(missing, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return missing
}

// Acknowledged tells all nodes that are alive how far the logs of partitions are acknowledged, and waits for their
// answers, for Options.Timeout at most: whoever does not answer for that long trusts no replica of its own any more.
func (p *Peers) Acknowledged(ctx context.Context, to map[topology.PartitionID]uint64) {
	ctx, cancel := p.opts.Sched.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	wg := p.group()
	for _, n := range p.nodes() {
		if p.Alive(n) {
			wg.Go(func() { _ = p.call(ctx, n, kindAcknowledged, acknowledged{to}, nil) }) // see above
		}
	}
	wg.Wait()
}

// Follow says that this node has a version of the records, with another schema than before: Run asks the others when
// they have it, without waiting for their next reports. It does not block.
func (p *Peers) Follow(version uint64) {
	p.mu.Lock()
	p.wanted, p.pending = max(p.wanted, version), true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Known waits until every node that is alive and answers is known to have a version of the records, or ctx ends. Follow
// has been called for the version.
func (p *Peers) Known(ctx context.Context, version uint64) {
	for {
		p.mu.Lock()
		changed, left := p.changed, p.pending
		for _, q := range p.peers {
			left = left || q.down.IsZero() && q.report.Records < version && q.asked
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

// follow asks nodes for the version that is wanted, each on a goroutine of its own and at most once at a time, until
// ctx ends.
func (p *Peers) follow(ctx context.Context) {
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
			if q != nil && q.down.IsZero() && !q.asked && q.report.Records < p.wanted {
				q.asked = true
				wg.Go(func() { p.askFor(ctx, n, q) })
			}
		}
		p.signal()
		p.mu.Unlock()
	}
}

// askFor asks a node for the version that is wanted until it has it, or does not answer: then its next report tells.
func (p *Peers) askFor(ctx context.Context, n topology.NodeID, q *peer) {
	for answered := true; ; {
		p.mu.Lock()
		version := p.wanted
		if q.report.Records >= version || !answered {
			q.asked = false
			p.signal()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		try, cancel := p.opts.Sched.WithTimeout(ctx, p.opts.Timeout)
		answered = p.await(try, n, awaitRequest{Version: version}) == nil
		cancel()
	}
}

// await waits until a node has a version of the records, and notes it.
func (p *Peers) await(ctx context.Context, n topology.NodeID, question awaitRequest) error {
	var s Standing
	if err := p.call(ctx, n, kindAwait, question, &s); err != nil {
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

// signal wakes all that wait for something to be known. mu is held.
func (p *Peers) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}
