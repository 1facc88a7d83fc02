// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

const (
	// asideShare is the part of a limit, one in so many, from which on a follower's load is told to the leader.
	asideShare = 16
	// asideFor is for how long what was told counts: it is told again every second.
	asideFor = 3 * lookEvery
	// asideMax bounds the partitions that one node tells another of, asidePlaces the samples of each, and asideNodes
	// those who tell of one partition.
	asideMax    = 256
	asidePlaces = 128
	asideNodes  = 64
	// asideVersion is the first byte of what appendAsides writes.
	asideVersion = 1
)

var errAside = errors.New("malformed list of what followers serve")

// aside is what a replica that does not lead serves: reads at ONE and QUORUM.
type aside struct {
	partition topology.PartitionID
	// epoch is that of its span.
	epoch uint64
	// load is in request units a second; places are samples of where it is.
	load   float64
	places []uint64
}

// followed is what is known of a replica here that does not lead.
type followed struct {
	epoch uint64
	units ru.Units
	load  float64
}

// heard is what another node has told of a partition, when.
type heard struct {
	aside
	at time.Time
}

// tellLeaders tells the leaders of partitions what this node serves of them. passed is the time since it was called
// last.
func (w *Watch) tellLeaders(ctx context.Context, replicas []*partition.Replica, passed time.Duration) {
	if w.Tell == nil {
		return
	}
	keep := map[topology.PartitionID]*followed{}
	lists := map[topology.NodeID][]aside{}
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || r.Leading() || w.Cap(r.Table()) == 0 {
			continue
		}
		_, epoch := r.Span()
		units := r.Counts().Units
		f := w.followed[r.ID()]
		switch {
		case f == nil || f.epoch != epoch:
			f = &followed{epoch: epoch}
		case passed > 0:
			f.load = (f.load + (units-f.units).Float()/passed.Seconds()) / 2
		}
		f.units, keep[r.ID()] = units, f
		if limit := w.limit(float64(r.Throughput())); limit <= 0 || !split.Above(f.load, limit/asideShare) {
			r.SetSampling(0)
			continue
		}
		r.SetSampling(sampleOf(f.load))
		if leader, ok := r.Leader(); ok && len(lists[leader]) < asideMax {
			places := stride(nil, r.SampledPositions(), asidePlaces)
			lists[leader] = append(lists[leader], aside{partition: r.ID(), epoch: epoch, load: f.load, places: places})
		}
	}
	w.followed = keep
	for _, leader := range slices.SortedFunc(maps.Keys(lists), byNode) {
		w.Tell(ctx, leader, appendAsides(nil, lists[leader]))
	}
}

// Hear takes in what another node has told by Tell: what it serves of partitions that are led here.
func (w *Watch) Hear(from topology.NodeID, b []byte) error {
	list, err := decodeAsides(b)
	if err != nil {
		return err
	}
	now := w.Sched.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range list {
		s := w.seen[a.partition]
		if s == nil || s.epoch != a.epoch {
			continue
		}
		if s.aside == nil {
			s.aside = map[topology.NodeID]heard{}
		}
		if _, known := s.aside[from]; known || len(s.aside) < asideNodes {
			s.aside[from] = heard{a, now}
		}
	}
	return nil
}

func byNode(a, b topology.NodeID) int { return bytes.Compare(a[:], b[:]) }

// total is the load of a partition, of which own is that of its leader, with what followers told lately; what is older
// is forgotten. The caller holds the mutex.
func (s *seen) total(now time.Time) float64 {
	load := s.own
	for from, h := range s.aside {
		if now.Sub(h.at) > asideFor {
			delete(s.aside, from)
			continue
		}
		load += h.load
	}
	return load
}

// places are samples of what all replicas of a partition were asked for, each in proportion to its load.
func (w *Watch) places(r *partition.Replica, s *seen) []uint64 {
	own := r.SampledPositions()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(s.aside) == 0 {
		return own
	}
	list := []aside{{load: s.own, places: own}}
	for _, from := range slices.SortedFunc(maps.Keys(s.aside), byNode) {
		list = append(list, s.aside[from].aside)
	}
	return mix(list)
}

// mix takes so many samples of each that one stands for the same load everywhere.
func mix(list []aside) (out []uint64) {
	each := 0.0
	for _, a := range list {
		if len(a.places) > 0 {
			each = max(each, a.load/float64(len(a.places)))
		}
	}
	for _, a := range list {
		if each > 0 {
			out = stride(out, a.places, int(math.Round(a.load/each)))
		}
	}
	return out
}

// stride appends n of some places, or all if there are no more, at even distances.
func stride(dst, places []uint64, n int) []uint64 {
	n = min(n, len(places))
	for i := range n {
		dst = append(dst, places[i*len(places)/n])
	}
	return dst
}

func appendAsides(dst []byte, list []aside) []byte {
	w := codec.Writer(append(dst, asideVersion))
	w.Uint(uint64(len(list)))
	for _, a := range list {
		w.Uint(uint64(a.partition))
		w.Uint(a.epoch)
		w.Uint(uint64(math.Ceil(a.load)))
		w.Uint(uint64(len(a.places)))
		for _, p := range a.places {
			w.Fixed(p)
		}
	}
	return w
}

func decodeAsides(b []byte) ([]aside, error) {
	r := codec.NewReader(b, errAside)
	if r.Byte() != asideVersion {
		return nil, errAside
	}
	n := r.Count(4)
	if n > asideMax {
		return nil, errAside
	}
	list := make([]aside, n)
	for i := range list {
		a := aside{partition: topology.PartitionID(r.Uint()), epoch: r.Uint(), load: float64(r.Uint())}
		if n = r.Count(8); n > asidePlaces {
			return nil, errAside
		}
		for range n {
			a.places = append(a.places, r.Fixed())
		}
		list[i] = a
	}
	return list, r.End()
}
