// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// shortagesMax is the maximum number of under-replicated partitions that a status lists.
const shortagesMax = 10

// addCluster adds the state of the cluster to the status of the node.
func (n *Reporter) addCluster(s *Status) {
	c := n.Cluster
	state := n.Records.State()
	for _, node := range state.Nodes {
		if node.State == meta.Left {
			continue
		}
		k, heard := n.known(node)
		s.Nodes = append(s.Nodes, nodeStatus(node, k, heard))
		if !k.Alive {
			s.Problems = append(s.Problems, fmt.Sprintf("node %s (%s) is unreachable", node.ID.Short(), node.Internal))
			continue
		}
		if skew := k.Skew.Abs(); skew > c.ClockSkew {
			s.Problems = append(s.Problems,
				fmt.Sprintf("the clock of node %s differs from this node's by %s", node.ID.Short(),
					skew.Round(time.Millisecond)))
		}
		if k.DiskFull && node.ID != c.Self {
			s.Problems = append(s.Problems, fmt.Sprintf("the disk of node %s is almost full: it rejects writes",
				node.ID.Short()))
		}
	}
	s.Problems = append(s.Problems, sharedAddresses(s.Nodes)...)
	s.Problems = append(s.Problems, n.shortages(state)...)
	s.Notes = append(s.Notes, likeness(s.Nodes)...)
	if coming := comingReplicas(state.Topology); coming > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d replicas are being moved to other nodes", coming))
	}
	if home := topology.HomeRegion(state.Topology); home != "" {
		where := ""
		if len(state.Regions) > 0 {
			where = " in region " + home
		}
		if wanted := placement.Wanted(state, home); wanted < placement.Replicas {
			s.Notes = append(s.Notes,
				fmt.Sprintf("partitions have only %d replicas, of which up to %d may fail. With %d or more nodes%s, they "+
					"would have %d replicas",
					wanted, (wanted-1)/2, placement.Replicas, where, placement.Replicas))
		}
	}
}

// sharedAddresses reports nodes that advertise the same address.
func sharedAddresses(nodes []NodeStatus) (problems []string) {
	for _, kind := range []struct {
		name    string
		address func(n *NodeStatus) string
	}{
		{"internal", func(n *NodeStatus) string { return n.Internal }},
		{"CQL", func(n *NodeStatus) string { return n.CQL }},
	} {
		of := map[string]string{}
		for i := range nodes {
			n := &nodes[i]
			address, id := kind.address(n), n.ID[:min(8, len(n.ID))]
			if first, ok := of[address]; ok && address != "" {
				problems = append(problems, fmt.Sprintf("nodes %s and %s have the same %s address, %s: other nodes "+
					"can reach only one of "+
					"them. Configure different addresses (cluster.advertise, cql)", first, id, kind.name, address))
				continue
			}
			of[address] = id
		}
	}
	return problems
}

// likeness reports properties that should differ but are equal on all nodes. It also reports properties that should be
// equal but differ.
func likeness(nodes []NodeStatus) (notes []string) {
	type zoneAt struct{ region, zone string }
	zones, inRegion, zonesIn, builds := map[zoneAt]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for i := range nodes {
		at := zoneAt{nodes[i].Region, nodes[i].Zone}
		if zones[at]++; zones[at] == 1 {
			zonesIn[at.region]++
		}
		inRegion[at.region]++
		if nodes[i].Software != "" {
			builds[nodes[i].Software]++
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(zones), func(a, b zoneAt) int {
		return cmp.Compare(a.region, b.region)
	}) {
		if n := inRegion[at.region]; n >= placement.Replicas && zonesIn[at.region] == 1 {
			where := ""
			if len(inRegion) > 1 {
				where = " of region " + at.region
			}
			notes = append(notes, fmt.Sprintf("all %d nodes%s are in zone %s: if the zone fails, all replicas of a "+
				"partition fail. "+
				"Configure different zones for nodes in different racks (--zone)", n, where, at.zone))
		}
	}
	if len(builds) > 1 {
		var list []string
		for _, build := range slices.Sorted(maps.Keys(builds)) {
			list = append(list, fmt.Sprintf("%s on %d", build, builds[build]))
		}
		notes = append(notes, "nodes run different versions: "+strings.Join(list, ", "))
	}
	return notes
}

// comingReplicas returns the number of replicas that have not become voters.
func comingReplicas(m *topology.Snapshot) (n int) {
	for p := range m.InMotion() {
		for i := range p.Sets {
			n += p.Sets[i].Count(topology.Joining)
		}
	}
	return n
}

func nodeStatus(node *meta.Node, k peers.PeerStatus, heard bool) NodeStatus {
	out := NodeStatus{
		ID: hex.EncodeToString(node.ID[:]), State: node.State.String(), Internal: node.Internal, CQL: node.CQL,
		HTTP:   node.HTTP,
		Region: node.Region, Zone: node.Zone, DiskFree: -1,
	}
	switch {
	case k.Alive:
	case node.State == meta.Leaving:
		out.State = "leaving, down"
	default:
		out.State = "down"
	}
	if heard {
		out.Replicas, out.DiskFree, out.DiskFull, out.DiskBytes = k.Replicas, k.DiskFree, k.DiskFull, k.DiskBytes
		out.HeldBytes = k.ReplicaBytes
		out.ClockSkewMillis, out.Software = k.Skew.Milliseconds(), k.Software
		out.WriteMemory = strconv.FormatUint(k.Memory, 16)
		if k.Alive { // an unreachable node leads no partitions
			out.Leading = k.Leading
			out.UpSeconds = int64(time.Since(k.Started) / time.Second)
		}
	}
	return out
}

// shortages reports under-replicated partitions.
func (n *Reporter) shortages(state *meta.State) []string {
	short := placement.UnderReplicated(state, n.Cluster.Peers.Down())
	var out []string
	for i, s := range short {
		if i == shortagesMax {
			out = append(out, fmt.Sprintf("and %d more under-replicated partitions", len(short)-i))
			break
		}
		what := fmt.Sprintf("partition %d of table %s", s.Partition, n.Catalog.TableName(s.Table))
		if s.Partition == topology.MetaPartition {
			what = "the meta partition"
		}
		text := fmt.Sprintf("%s has %d of %d replicas", what, s.Alive, s.Wanted)
		switch {
		case s.Spare < 0:
			text += ": writes fail"
		case s.Spare == 0:
			text += ". No further replica can fail"
		default:
			text += fmt.Sprintf(". %d more can fail", s.Spare)
		}
		if s.Changing {
			text += ", replicas are joining"
		}
		out = append(out, text)
	}
	return out
}
