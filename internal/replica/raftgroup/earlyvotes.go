// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// earlyMax is the maximum number of vote requests in earlyVotes.
const earlyMax = 64

// earlyVotes holds the newest vote requests that arrived before their groups were created. Each node opens a child of a
// split when it applies the split, and the designated leader requests votes immediately. Without earlyVotes, the leader
// would repeat the request a tick later, and the group would have no leader until then.
type earlyVotes map[uint64]earlyVote

type earlyVote struct {
	from    NodeID
	message Message
	tick    uint64
}

// keep stores the newest request for a group.
func (e *earlyVotes) keep(from NodeID, m Message, tick uint64) {
	if m.Raft.GetType() != pb.MsgPreVote {
		return
	}
	if *e == nil {
		*e = earlyVotes{}
	}
	if _, ok := (*e)[m.Group]; !ok && len(*e) >= earlyMax {
		clear(*e) // the candidates will repeat their requests
	}
	m.Raft, m.Data = proto.CloneOf(m.Raft), nil
	(*e)[m.Group] = earlyVote{from, m, tick}
}

// take removes and returns the request for a new group. ok is false if the request is older than most ticks.
func (e *earlyVotes) take(group uint64, tick uint64, most int) (earlyVote, bool) {
	v, ok := (*e)[group]
	delete(*e, group)
	return v, ok && tick-v.tick <= uint64(most)
}
