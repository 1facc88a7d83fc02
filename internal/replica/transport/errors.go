// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrCluster: the two nodes belong to different clusters.
	ErrCluster = errors.New("another cluster")
	// ErrVersion: the two nodes have no version of the protocol in common.
	ErrVersion = errors.New("no protocol version in common")
	// ErrSelf: a node reached itself.
	ErrSelf = errors.New("a node dialled itself")
	// ErrOtherNode: another node answers at the address.
	ErrOtherNode = errors.New("another node is at this address")
	// ErrIdentity: the certificate does not name the node id that is claimed.
	ErrIdentity = errors.New("the certificate does not name the node")
	// ErrSecret: the other side has not proven that it has the secret of this one.
	ErrSecret = errors.New("the secret of the cluster is not proven")
	// ErrTwin: another process with the same id is connected. It may be the same node's, and about to be found dead.
	ErrTwin = errors.New("another process has this identity")
	// ErrNotAdmitted: Options.Admit refused the node.
	ErrNotAdmitted = errors.New("the node is not admitted")
	// ErrLevel: Options.Admit refused the node because its build does not understand the cluster's feature level.
	ErrLevel = errors.New("the node does not understand the feature level of the cluster")
	// ErrCopy: Options.Admit has seen another state of the node's data directory: this one is a copy, or an earlier
	// state.
	ErrCopy = errors.New("the data directory is a copy, or was put back to an earlier state")
	// ErrHandshake: bytes that are no handshake.
	ErrHandshake = errors.New("malformed handshake")
	// ErrFrame: a frame that is too long, whose checksum is wrong, or that does not belong where it came.
	ErrFrame = errors.New("malformed frame")

	// ErrUnreachable: there is no connection to the node and the last attempt failed; nothing was sent.
	ErrUnreachable = errors.New("node is unreachable")
	// ErrNoAddress: the address book does not have the node; nothing was sent.
	ErrNoAddress = errors.New("the node's address is not known")
	// ErrLost: the connection was lost while the command was under way. It may have been carried out.
	ErrLost = errors.New("connection lost: outcome unknown")
	// ErrBusy: a bound of Options was reached, here or at the other node; nothing was done.
	ErrBusy = errors.New("too much is under way")
	// ErrTooLong: a message above Options.FrameBytes.
	ErrTooLong = errors.New("message is too long")
	// ErrOneAnswer: the caller of Call takes one answer, not pages.
	ErrOneAnswer = errors.New("one answer was asked for, not pages")
	// ErrSnapshot: a snapshot did not arrive whole.
	ErrSnapshot = errors.New("snapshot is incomplete")
	// ErrClosed: the transport is closed.
	ErrClosed = errors.New("transport is closed")

	errDeparted = errors.New("the peer has ended")
)

// Refused is a handshake that ended in a refusal; it unwraps to one of the errors above.
type Refused struct {
	// Reason is ErrCluster, ErrVersion, ErrSelf, ErrOtherNode, ErrIdentity, ErrSecret, ErrTwin, ErrNotAdmitted,
	// ErrLevel, ErrCopy, ErrBusy or ErrHandshake.
	Reason error
	// Text says what was expected and what was found.
	Text string
	// ByPeer: the other side refused.
	ByPeer bool
}

func (r *Refused) Error() string {
	if r.ByPeer {
		return fmt.Sprintf("refused by peer: %v: %s", r.Reason, r.Text)
	}
	return fmt.Sprintf("%v: %s", r.Reason, r.Text)
}

// Unwrap returns Reason.
func (r *Refused) Unwrap() error { return r.Reason }

// RemoteError is the text of an error of a handler on the other node.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "remote: " + e.Text }

// status is what the answer to a handshake or a command says; frozen.
type status uint8

const (
	statusOK status = iota
	statusHandshake
	statusCluster
	statusVersion
	statusSelf
	statusOtherNode
	statusIdentity
	statusNotAdmitted
	statusBusy
	statusFailed // of a handler: the text says why
	statusOneAnswer
	statusTwin
	statusLevel
	statusCopy
	statusSecret
)

var statusErrors = [...]error{
	statusHandshake: ErrHandshake, statusCluster: ErrCluster, statusVersion: ErrVersion, statusSelf: ErrSelf,
	statusOtherNode: ErrOtherNode, statusIdentity: ErrIdentity, statusNotAdmitted: ErrNotAdmitted, statusBusy: ErrBusy,
	statusOneAnswer: ErrOneAnswer, statusTwin: ErrTwin, statusLevel: ErrLevel, statusCopy: ErrCopy,
	statusSecret: ErrSecret,
}

// statusOf returns the status that stands for an error.
func statusOf(err error) status {
	for s, e := range statusErrors {
		if e != nil && errors.Is(err, e) {
			return status(s)
		}
	}
	return statusFailed
}

// reason returns the error a status of a handshake stands for; a newer peer may know more reasons.
func (s status) reason() error {
	if int(s) < len(statusErrors) && statusErrors[s] != nil {
		return statusErrors[s]
	}
	return ErrNotAdmitted
}

// answerError is the error of a command or a snapshot that the other node refused or failed.
func answerError(s status, text string) error {
	if int(s) < len(statusErrors) && statusErrors[s] != nil {
		return fmt.Errorf("%w: %s", statusErrors[s], text)
	}
	return &RemoteError{Text: text}
}
