// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node whose disk is almost full, or whose clock is wrong, abstains from leadership. It accepts no leadership of a
// group and does not campaign while another voter of the group can lead (RG13). A voter can lead if its node is up and
// does not abstain. If all voters abstain, all of them may lead. A node's information about other nodes may be
// outdated, and another voter may lack entries. A replica that has had no leader for abstainTimeouts election timeouts
// therefore always campaigns.

// abstainTimeouts is the number of election timeouts after which an abstaining node campaigns for a group without a
// leader. It must exceed the time for which a node distrusts its clock after a start.
const abstainTimeouts = 6

// leadershipPolicy determines which nodes may lead according to this node.
type leadershipPolicy struct {
	node  NodeID
	peers *peers
	// transferring is true after the first call of TransferAll. The node then accepts no leadership.
	transferring bool
	// abstains and abstaining are the last values passed to Abstain and Abstaining.
	abstains   bool
	abstaining map[NodeID]bool
}

// canLead reports whether a node is up and does not abstain.
func (p *leadershipPolicy) canLead(node NodeID) bool {
	if node == p.node {
		return !p.abstains
	}
	return !p.abstaining[node] && !p.peers.of(node).down
}

// Abstain sets whether this node leaves leadership to other nodes. An abstaining node still votes, applies entries, and
// serves requests. It must be called on the loop.
func (h *Host) Abstain(on bool) { h.policy.abstains = on }

// Abstaining sets the other nodes that abstain. It must be called on the loop.
func (h *Host) Abstaining(nodes map[NodeID]bool) { h.policy.abstaining = nodes }

// avoidsLeading reports whether this node leaves the leadership of a group to other nodes. It ignores the node except.
func (e *election) avoidsLeading(except NodeID) bool {
	g, h := e.g, e.g.host
	if !h.policy.abstains || g.lead == 0 && h.ticks-e.leaderless > uint64(abstainTimeouts*h.opts.ElectionTicks) {
		return false
	}
	for _, id := range g.membership.conf.GetVoters() {
		r := g.route(id)
		if r != nil && r.Node != h.opts.Node && r.Node != except && h.policy.canLead(r.Node) {
			return true
		}
	}
	return false
}
