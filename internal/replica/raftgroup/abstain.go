// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node whose disk is almost full, or whose clock is wrong, abstains: others should lead. Which groups it leads in
// spite of that is decided for each group by its voters (RG13): it takes no leadership, and asks for no votes, as long
// as another voter can lead, which is one whose node is neither down nor abstains. If all voters abstain, all of them
// may lead. What a node knows of others may be old or wrong, and another voter may lack entries; so a replica that has
// had no leader for abstainTimeouts asks for votes in any case.

// abstainTimeouts is how many election timeouts a node that abstains leaves a group without a leader to others. It is
// longer than a node doubts its clock after a start.
const abstainTimeouts = 6

// Abstain has the node leave leadership to others, or ends that. It votes, applies and serves as before. Loop only.
func (h *Host) Abstain(on bool) { h.abstains = on }

// Abstaining says which other nodes abstain, as far as this one has heard. Loop only.
func (h *Host) Abstaining(nodes map[NodeID]bool) { h.abstaining = nodes }

// shuns reports whether this node leaves the leadership of a group to others, the node of except not counted.
func (h *Host) shuns(g *Group, except NodeID) bool {
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

// canLead reports whether a node neither abstains nor is down, as far as this one knows.
func (h *Host) canLead(node NodeID) bool {
	if node == h.opts.Node {
		return !h.abstains
	}
	return !h.abstaining[node] && !h.peers.of(node).down
}
