// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader means that this replica does not lead the group. The request had no effect. Group.Leader may return
	// the leader.
	ErrNotLeader = errors.New("not the leader")
	// ErrStaleTerm means that the term of the proposal has ended. The proposal had no effect.
	ErrStaleTerm = errors.New("the term of the proposal has ended")
	// ErrReplaced means that another leader's entry was committed instead of the proposal. The proposal had no effect.
	// ErrReplaced wraps ErrStaleTerm.
	ErrReplaced = fmt.Errorf("another entry was committed in its place: %w", ErrStaleTerm)
	// ErrUnknown means that the replica lost its leadership or was closed, and could not determine the outcome of the
	// proposal.
	ErrUnknown = errors.New("leadership was lost: outcome unknown")
	// ErrNotReady means that the replica cannot take over the leadership now, because it lags, is silent, or is not a
	// voter. The request had no effect.
	ErrNotReady = errors.New("replica is not ready to lead")
	// ErrUnwanted means that this node does not need a snapshot or already holds too many snapshots.
	ErrUnwanted = errors.New("the snapshot is not wanted")
	// ErrReadTimeout means that no quorum confirmed the read within an election timeout.
	ErrReadTimeout = errors.New("no quorum confirmed the read")
	// ErrMembersBusy means that another membership change is in progress, or that the leader is too new to know whether
	// a change is in progress.
	ErrMembersBusy = errors.New("a membership change is in progress")
	// ErrClosed means that the group or the host is closed.
	ErrClosed = errors.New("closed")
	// ErrLeaving means that an earlier replica of the group has not been removed completely.
	ErrLeaving = errors.New("an earlier replica is being removed")
	// ErrBehindLog means that the state machine is older than the first entry in the log. Its state was lost.
	ErrBehindLog = errors.New("state machine is behind its truncated log")
	// ErrLostLog means that the log of an existing replica is missing or ends before the last entry of the state. The
	// replica's votes have also been lost.
	ErrLostLog = errors.New("the log of the replica is lost, or was restored to an earlier state")
	// ErrGap means that an entry does not follow the last applied entry.
	ErrGap = errors.New("entry does not follow the applied index")
	// ErrFrame means that a frame is malformed or was written by a newer version.
	ErrFrame = errors.New("malformed frame")
)

// LimitError identifies the limit in Options that a request has reached. The request had no effect.
type LimitError struct {
	// Bound is the name of the limit's option. Limit is the value of the option.
	Bound string
	Limit int64
}

func (r *LimitError) Error() string {
	return fmt.Sprintf("refused: %s of %d reached", r.Bound, r.Limit)
}
