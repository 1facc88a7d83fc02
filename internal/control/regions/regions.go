// SPDX-License-Identifier: Apache-2.0

// Package regions registers the regions in which a cluster may have nodes.
//
// Guarantees:
//
//   - (RN1) The number of a region is never reused, even if the region is removed and added again.
//   - (RN2) A region with members or replica sets cannot be removed.
//
// Start reading at Operations.
package regions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Operations adds and removes regions. The caller must set the exported fields before use.
type Operations struct {
	Metadata *meta.Keeper
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// timeout is the maximum wait for a metadata change.
const timeout = 10 * time.Second

// nameMax is the maximum length of a region name.
const nameMax = 48

// Add registers a region and returns a message for the operator. Nodes of the region can then join the cluster.
func (o *Operations) Add(ctx context.Context, name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	return fmt.Sprintf("region %q was added: start its nodes with --region %s", name, name),
		o.update(ctx, func(s *meta.State) (*meta.State, error) { return add(s, name) })
}

// Remove removes a region without nodes and returns a message for the operator.
func (o *Operations) Remove(ctx context.Context, name string) (string, error) {
	return fmt.Sprintf("region %q was removed", name),
		o.update(ctx, func(s *meta.State) (*meta.State, error) { return remove(s, name) })
}

// List returns the regions in ascending order of their numbers.
func (o *Operations) List() ([]Region, error) { return List(o.Metadata.State()) }

func (o *Operations) update(ctx context.Context, f func(s *meta.State) (*meta.State, error)) error {
	ctx, cancel := o.Sched.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := o.Metadata.Update(ctx, f)
	return err
}

// checkName rejects names that cannot be used in a configuration file, a URL, or a replication option.
func checkName(name string) error {
	if name == "" || len(name) > nameMax {
		return fmt.Errorf("a region name must have 1 to %d characters", nameMax)
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("region name %q contains %q: use letters, digits, '-', '_', and '.'", name, c)
		}
	}
	if name == "class" || name == "replication_factor" {
		return fmt.Errorf("%q is the name of a replication option and cannot be a region name", name)
	}
	return nil
}

// add returns the state with a new region. The first call also registers the region in which the cluster was created.
func add(s *meta.State, name string) (*meta.State, error) {
	home := topology.HomeRegion(s.Topology)
	switch {
	case home == "":
		return nil, ErrStandalone
	case s.Topology.Level() < feature.Regions:
		return nil, fmt.Errorf("regions need feature level %d: when all nodes run a build that supports it, raise the "+
			"level with \"ilion upgrade\"", feature.Regions)
	case name == home, s.Region(name) != nil:
		return nil, fmt.Errorf("region %q already exists", name)
	}
	if s.Region(home) == nil {
		s = s.WithRegion(&meta.Region{Name: home})
	}
	number := uint32(0)
	for _, r := range s.Regions {
		number = max(number, r.Number)
	}
	return s.WithRegion(&meta.Region{Name: name, Number: number + 1}), nil
}

// ErrStandalone means that the node is standalone.
var ErrStandalone = errors.New("this node does not belong to a cluster: start it with --bootstrap before you add a " +
	"region")

// remove returns the state without a region.
func remove(s *meta.State, name string) (*meta.State, error) {
	r, nodes := s.Region(name), 0
	for _, n := range s.Nodes {
		if n.Region == name && n.State != meta.Left {
			nodes++
		}
	}
	sets := 0
	for p := range s.Topology.All() {
		if p.Set(name) != nil {
			sets++
		}
	}
	switch {
	case sets > 0:
		return nil, fmt.Errorf("cannot remove region %q: it holds replicas of %s", name, count(sets, "partition"))
	case r == nil:
		return nil, fmt.Errorf("region %q does not exist. Run \"ilion region list\" to list the regions", name)
	case nodes > 0:
		return nil, fmt.Errorf("cannot remove region %q: it has %s. Remove its nodes first (ilion node decommission)",
			name, count(nodes, "node"))
	}
	removed := *r
	removed.State = meta.RegionRemoved
	return s.WithRegion(&removed), nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Region is a region with its nodes.
type Region struct {
	Name   string `json:"name"`
	Number uint32 `json:"number"`
	// Home reports whether the region holds the replicas of all tables.
	Home bool `json:"home"`
	// Nodes is the number of members in the region.
	Nodes int `json:"nodes"`
}

// List returns the regions of a cluster in ascending order of numbers, or ErrStandalone.
func List(s *meta.State) ([]Region, error) {
	home := topology.HomeRegion(s.Topology)
	if home == "" {
		return nil, ErrStandalone
	}
	list := []Region{{Name: home, Home: true}}
	for name, r := range s.Regions {
		if name == home {
			list[0].Number = r.Number
		} else if r.State == meta.RegionPresent {
			list = append(list, Region{Name: name, Number: r.Number})
		}
	}
	for i := range list {
		for _, n := range s.Nodes {
			if n.Region == list[i].Name && n.State != meta.Left {
				list[i].Nodes++
			}
		}
	}
	slices.SortFunc(list, func(a, b Region) int { return cmp.Compare(a.Number, b.Number) })
	return list, nil
}
