// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// RegionNumber returns the number of a region in which the cluster may have nodes. It returns an error if the region is
// neither the home region nor registered.
func RegionNumber(s *meta.State, name string) (uint32, error) {
	if r := s.Region(name); r != nil {
		return r.Number, nil
	}
	home := topology.HomeRegion(s.Topology)
	if name == home {
		return 0, nil
	}
	return 0, fmt.Errorf("the node is in region %q, which the cluster does not have: add the region "+
		"(ilion region add %s), or start the node with --region %s", name, name, home)
}

// Directory provides access to the region of a data directory. *storage.Store implements it.
type Directory interface {
	// Region returns the number of the region of the directory, or 0 for the home region.
	Region() uint32
	// SetRegion durably sets the number.
	SetRegion(number uint32) error
}

// CheckRegion checks that a data directory belongs to the region of its node, and records the number of the region in
// the directory. The number differs if the region has been removed and added again since the node joined.
func CheckRegion(s *meta.State, region string, d Directory) error {
	number, err := RegionNumber(s, region)
	if err != nil {
		return err
	}
	if was := d.Region(); was != 0 && was != number {
		return fmt.Errorf("the data directory belongs to another region (number %d), and region %q has number %d: "+
			"start the node on an empty directory", was, region, number)
	}
	return d.SetRegion(number)
}
