// SPDX-License-Identifier: Apache-2.0

package raftgroup

// TransferAnyway transfers the leadership without checking the target.
func (h *Host) TransferAnyway(id, to uint64) { h.groups[id].offer.offer(to) }

// Stamp returns the value of an instant in this process's frames.
func (h *Host) Stamp(at Instant) Instant { return h.peers.clocks.stamp(at) }

// Inconsistent makes the library detect an impossible state in the next step.
func (r *Runner) Inconsistent() {
	r.Call(func(*Host) { quietLogger{}.Panicf("tocommit(%d) is out of range", 7) })
}

// MsgQuiesce is the message with which a leader announces that it becomes quiescent.
const MsgQuiesce = msgQuiesce
