// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node whose disk is almost full, or whose clock is wrong, abstains from leadership. It accepts no leadership of a
// group and does not campaign while another voter of the group can lead (RG13). A voter can lead if its node is up and
// does not abstain. If all voters abstain, all of them may lead. A node's information about other nodes may be outdated
// or wrong, and another voter may lack entries. A replica that has had no leader for abstainTimeouts therefore
// campaigns in any case.

// abstainTimeouts is the number of election timeouts for which an abstaining node leaves it to other nodes to lead a
// group without a leader. It is longer than the time for which a node distrusts its clock after a start.
const abstainTimeouts = 6

// Abstain sets whether this node leaves leadership to other nodes. In both cases, the node votes, applies entries, and
// serves requests. It must be called on the loop.
func (h *Host) Abstain(on bool) { h.abstains = on }

// Abstaining sets the other nodes that abstain, according to this node's information. It must be called on the loop.
func (h *Host) Abstaining(nodes map[NodeID]bool) { h.abstaining = nodes }

// avoidsLeading reports whether this node leaves the leadership of a group to other nodes. The node except is not
// considered.
func (h *Host) avoidsLeading(g *Group, except NodeID) bool {
	if !h.abstains || g.lead == 0 && h.ticks-g.leaderless > uint64(abstainTimeouts*h.opts.ElectionTicks) {
		return false
	}
	for _, id := range g.conf.GetVoters() {
		r := g.route(id)
		if r != nil && r.Node != h.opts.Node && r.Node != except && h.canLead(r.Node) {
			return true
		}
	}
	return false
}

// canLead reports whether a node is up and does not abstain, according to this node's information.
func (h *Host) canLead(node NodeID) bool {
	if node == h.opts.Node {
		return !h.abstains
	}
	return !h.abstaining[node] && !h.peers.of(node).down
}
