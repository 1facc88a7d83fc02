// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// earlyMax bounds the votes that are kept for groups that are not here.
const earlyMax = 64

// earlyVotes are the newest questions for a vote that came before their groups were here: a child of a split is opened
// on each node when that has applied the split, and the one that is to lead asks at once. Without them it would ask
// again a tick later, and be without a leader until then. A message that is taken late is one that travelled long.
type earlyVotes map[uint64]earlyVote

type earlyVote struct {
	from    NodeID
	message Message
	tick    uint64
}

// keep keeps the newest question for a group.
func (e *earlyVotes) keep(from NodeID, m Message, tick uint64) {
	if m.Raft.GetType() != pb.MsgPreVote {
		return
	}
	if *e == nil {
		*e = earlyVotes{}
	}
	if _, ok := (*e)[m.Group]; !ok && len(*e) >= earlyMax {
		clear(*e) // they are asked again
	}
	m.Raft, m.Data = proto.CloneOf(m.Raft), nil
	(*e)[m.Group] = earlyVote{from, m, tick}
}

// take returns the question for a group that has come, if it is not older than some ticks.
func (e *earlyVotes) take(group uint64, tick uint64, most int) (earlyVote, bool) {
	v, ok := (*e)[group]
	delete(*e, group)
	return v, ok && tick-v.tick <= uint64(most)
}
