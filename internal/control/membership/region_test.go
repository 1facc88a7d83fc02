// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// regionFile is the region of a data directory.
type regionFile uint32

func (f *regionFile) Region() uint32 { return uint32(*f) }

func (f *regionFile) SetRegion(number uint32) error {
	*f = regionFile(number)
	return nil
}

// TestRegionOfDirectory checks that a node may be in the home region or in a registered region. The node's directory
// must contain the number of the region, and must be rejected in a region with another number.
func TestRegionOfDirectory(t *testing.T) {
	m, err := topology.New().AddMeta([]topology.Place{{Region: "us", Nodes: []topology.NodeID{{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := meta.Empty().WithTopology(m)
	home, far := new(regionFile), new(regionFile)
	if err := CheckRegion(s, "us", home); err != nil || *home != 0 {
		t.Errorf("the home region: %v, %d", err, *home)
	}
	if err := CheckRegion(s, "eu", far); err == nil {
		t.Error("a region that is not registered was accepted")
	}
	s = s.WithRegion(&meta.Region{Name: "us"}).WithRegion(&meta.Region{Name: "eu", Number: 1})
	for range 2 {
		if err := CheckRegion(s, "eu", far); err != nil || *far != 1 {
			t.Errorf("a registered region: %v, %d", err, *far)
		}
	}
	if err := CheckRegion(s, "us", far); err == nil {
		t.Error("a directory of another region was accepted")
	}
	again := s.WithRegion(&meta.Region{Name: "eu", Number: 2})
	if err := CheckRegion(again, "eu", far); err == nil || *far != 1 {
		t.Errorf("a directory of a removed region with the same name: %v", err)
	}
	gone := s.WithRegion(&meta.Region{Name: "eu", Number: 1, State: meta.RegionRemoved})
	if err := CheckRegion(gone, "eu", far); err == nil {
		t.Error("a removed region was accepted")
	}
}
