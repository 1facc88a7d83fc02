// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader: this replica does not lead the group; nothing was done. Group.Leader may know which does.
	ErrNotLeader = errors.New("not the leader")
	// ErrStaleTerm: the proposal was made for a term that is over; nothing was done.
	ErrStaleTerm = errors.New("the term of the proposal is over")
	// ErrReplaced: the proposal was in the log and another leader's entry was committed in its place; nothing was done.
	// It is an ErrStaleTerm.
	ErrReplaced = fmt.Errorf("another entry was committed in its place: %w", ErrStaleTerm)
	// ErrUnknown: the replica lost its leadership, or the group, and could not see what became of the proposal.
	ErrUnknown = errors.New("leadership was lost: outcome unknown")
	// ErrNotReady: the replica is no voter that could lead at once: it is behind, silent, or no voter at all. Nothing
	// was done.
	ErrNotReady = errors.New("replica is not ready to lead")
	// ErrUnwanted: a snapshot that is of no use here, or one too many.
	ErrUnwanted = errors.New("the snapshot is not wanted")
	// ErrReadTimeout: no quorum confirmed the read within an election timeout.
	ErrReadTimeout = errors.New("no quorum confirmed the read")
	// ErrMembersBusy: another change of members is under way, or the leader is too new to know.
	ErrMembersBusy = errors.New("a change of members is under way")
	// ErrClosed: the group or the host is closed.
	ErrClosed = errors.New("closed")
	// ErrLeaving: an earlier replica of the group is not gone yet.
	ErrLeaving = errors.New("an earlier replica is being removed")
	// ErrBehindLog: the state machine is older than what the log still has. Its state was lost.
	ErrBehindLog = errors.New("state machine is behind its truncated log")
	// ErrLostLog: the log of a replica that has had one is not there, or ends before what its state holds. What the
	// replica has promised to others is lost with it.
	ErrLostLog = errors.New("the log of the replica is lost, or was put back to an earlier state")
	// ErrGap: an entry does not follow the last one applied.
	ErrGap = errors.New("entry does not follow the applied index")
	// ErrFrame: bytes that AppendMessage did not write, or a newer version wrote.
	ErrFrame = errors.New("malformed frame")
)

// Refused says which bound of Options a request reached. Nothing was done.
type Refused struct {
	// Bound is the name of the option, Limit its value.
	Bound string
	Limit int64
}

func (r *Refused) Error() string { return fmt.Sprintf("refused: %s of %d reached", r.Bound, r.Limit) }
