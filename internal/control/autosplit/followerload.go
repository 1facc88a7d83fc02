// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

const (
	// reportShare is the divisor of the load limit that yields the load above which a follower reports its load.
	reportShare = 16
	// reportTTL is the time for which a report is used.
	reportTTL = 3 * roundInterval
	// reportPartitionsMax is the maximum number of partitions in one report. reportTokensMax is the maximum number of
	// sampled tokens of each partition. reportNodesMax is the maximum number of nodes that report about one partition.
	reportPartitionsMax = 256
	reportTokensMax     = 128
	reportNodesMax      = 64
	// reportVersion is the first byte of an encoded report.
	reportVersion = 1
)

// FollowerLoadCall sends the load that a node serves as a follower to the leader.
var FollowerLoadCall = rpc.Declare[FollowerReport, rpc.None](rpc.Spec{Name: "aside", Since: 3,
	Timeout: 300 * time.Millisecond, RequestMax: 1 << 20, Idempotent: true})

var errReport = errors.New("malformed follower load report")

// FollowerReport is the load that a node serves as a follower of partitions whose leaders are on another node.
type FollowerReport struct {
	From  topology.NodeID
	loads []followerLoad
}

// followerLoad is the load of reads at ONE and QUORUM that a follower serves.
type followerLoad struct {
	partition topology.PartitionID
	// epoch is the epoch of the partition's span.
	epoch uint64
	// load is the load in request units per second. tokens holds sampled ring positions of the requests.
	load   float64
	tokens []uint64
}

// followerState is the state of a replica on this node that does not lead.
type followerState struct {
	epoch uint64
	units ru.Units
	load  float64
}

// followerReport is a followerLoad that another node has sent.
type followerReport struct {
	followerLoad
	receivedAt time.Time
}

// reportFollowerLoad sends the load that this node serves as a follower to the leaders. elapsed is the time since the
// previous call.
func (w *SplitController) reportFollowerLoad(ctx context.Context, replicas []*partition.Replica,
	elapsed time.Duration) {
	if w.Queries == nil {
		return
	}
	keep := map[topology.PartitionID]*followerState{}
	lists := map[topology.NodeID][]followerLoad{}
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || r.Leading() || w.Limits.SizeLimit(r.Table()) == 0 {
			continue
		}
		_, epoch := r.Span()
		units := r.Load().Counts().Units
		f := w.followed[r.ID()]
		switch {
		case f == nil || f.epoch != epoch:
			f = &followerState{epoch: epoch}
		case elapsed > 0:
			f.load = (f.load + (units-f.units).Float()/elapsed.Seconds()) / 2
		}
		f.units, keep[r.ID()] = units, f
		if limit := w.loadLimit(float64(r.Throughput().PerSecond())); limit <= 0 ||
			!split.Exceeds(f.load, limit/reportShare) {
			r.Load().SetSampling(0)
			continue
		}
		r.Load().SetSampling(unitsPerSample(f.load))
		if leader, ok := r.Leader(); ok && len(lists[leader]) < reportPartitionsMax {
			tokens := appendEvenly(nil, r.Load().SampledPositions(), reportTokensMax)
			lists[leader] = append(lists[leader], followerLoad{partition: r.ID(), epoch: epoch, load: f.load,
				tokens: tokens})
		}
	}
	w.followed = keep
	for _, leader := range slices.SortedFunc(maps.Keys(lists), byNode) {
		if w.Queries.Alive(leader) { // the next report replaces a lost report
			report := FollowerReport{w.Queries.Self(), lists[leader]}
			_, _ = clusterquery.Query(ctx, w.Queries, leader, FollowerLoadCall, report)
		}
	}
}

// Register registers the handlers for the calls of other nodes.
func (w *SplitController) Register(s *rpc.Server) {
	clusterquery.Handle(s, FollowerLoadCall, func(_ context.Context, r FollowerReport) (rpc.None, error) {
		w.handleReport(r)
		return rpc.None{}, nil
	})
	clusterquery.Handle(s, CandidatesCall, func(context.Context, rpc.None) (merge.Candidates, error) {
		return w.Candidates(), nil
	})
}

// handleReport stores the follower load that another node has sent. It ignores partitions whose leader is not on this
// node.
func (w *SplitController) handleReport(r FollowerReport) {
	now := w.Sched.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range r.loads {
		s := w.states[a.partition]
		if s == nil || s.epoch != a.epoch {
			continue
		}
		if s.followers == nil {
			s.followers = map[topology.NodeID]followerReport{}
		}
		if _, known := s.followers[r.From]; known || len(s.followers) < reportNodesMax {
			s.followers[r.From] = followerReport{a, now}
		}
	}
}

func byNode(a, b topology.NodeID) int { return bytes.Compare(a[:], b[:]) }

// totalLoad returns the sum of the leader's load and the recent follower load. It also deletes expired reports. The
// caller must hold mu.
func (s *partitionState) totalLoad(now time.Time) float64 {
	load := s.ownLoad
	for from, h := range s.followers {
		if now.Sub(h.receivedAt) > reportTTL {
			delete(s.followers, from)
			continue
		}
		load += h.load
	}
	return load
}

// sampledTokens returns sampled ring positions of the requests to all replicas of a partition, in proportion to their
// loads.
func (w *SplitController) sampledTokens(r *partition.Replica, s *partitionState) []uint64 {
	own := r.Load().SampledPositions()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(s.followers) == 0 {
		return own
	}
	list := []followerLoad{{load: s.ownLoad, tokens: own}}
	for _, from := range slices.SortedFunc(maps.Keys(s.followers), byNode) {
		list = append(list, s.followers[from].followerLoad)
	}
	return combineSamples(list)
}

// combineSamples reduces the samples of each replica so that every remaining sample represents the same load.
func combineSamples(list []followerLoad) (out []uint64) {
	each := 0.0
	for _, a := range list {
		if len(a.tokens) > 0 {
			each = max(each, a.load/float64(len(a.tokens)))
		}
	}
	for _, a := range list {
		if each > 0 {
			out = appendEvenly(out, a.tokens, int(math.Round(a.load/each)))
		}
	}
	return out
}

// appendEvenly appends up to n evenly spaced tokens.
func appendEvenly(dst, tokens []uint64, n int) []uint64 {
	n = min(n, len(tokens))
	for i := range n {
		dst = append(dst, tokens[i*len(tokens)/n])
	}
	return dst
}

// AppendBinary implements encoding.BinaryAppender.
func (f *FollowerReport) AppendBinary(dst []byte) ([]byte, error) {
	w := codec.Writer(append(append(dst, f.From[:]...), reportVersion))
	w.Uint(uint64(len(f.loads)))
	for _, a := range f.loads {
		w.Uint(uint64(a.partition))
		w.Uint(a.epoch)
		w.Uint(uint64(math.Ceil(a.load)))
		w.Uint(uint64(len(a.tokens)))
		for _, p := range a.tokens {
			w.Fixed(p)
		}
	}
	return w, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (f *FollowerReport) UnmarshalBinary(b []byte) error {
	r := codec.NewReader(b, errReport)
	copy(f.From[:], r.Take(uint64(len(f.From))))
	if r.Byte() != reportVersion {
		return errReport
	}
	n := r.Count(4)
	if n > reportPartitionsMax {
		return errReport
	}
	f.loads = make([]followerLoad, n)
	for i := range f.loads {
		a := followerLoad{partition: topology.PartitionID(r.Uint()), epoch: r.Uint(), load: float64(r.Uint())}
		if n = r.Count(8); n > reportTokensMax {
			return errReport
		}
		for range n {
			a.tokens = append(a.tokens, r.Fixed())
		}
		f.loads[i] = a
	}
	return r.End()
}
