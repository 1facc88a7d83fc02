// SPDX-License-Identifier: Apache-2.0

package raftgroup

// TransferAnyway transfers leadership without checking the target.
func (h *Host) TransferAnyway(id, to uint64) { h.groups[id].offer.offer(to) }

// Stamp is how an instant appears in this process's frames.
func (h *Host) Stamp(at Instant) Instant { return h.peers.clocks.stamp(at) }

// Inconsistent has the library find an impossible state in the next step.
func (r *Runner) Inconsistent() {
	r.Call(func(*Host) { quietLogger{}.Panicf("tocommit(%d) is out of range", 7) })
}

// MsgQuiesce is the message by which a leader falls quiet.
const MsgQuiesce = msgQuiesce
