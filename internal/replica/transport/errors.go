// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

var (
	// ErrCluster means that the two nodes belong to different clusters.
	ErrCluster = errors.New("the node belongs to another cluster")
	// ErrVersion means that the two nodes have no protocol version in common.
	ErrVersion = errors.New("no common protocol version")
	// ErrSelf means that a node connected to itself.
	ErrSelf = errors.New("the node connected to itself")
	// ErrOtherNode means that another node responds at the address.
	ErrOtherNode = errors.New("another node is at this address")
	// ErrIdentity means that the certificate does not name the claimed node ID.
	ErrIdentity = errors.New("the certificate does not name the node")
	// ErrSecret means that the other side has not proven that it has this node's secret.
	ErrSecret = errors.New("the peer has not proven that it knows the cluster secret")
	// ErrDuplicateNode means that another process with the same node ID is connected. It may be an earlier process of
	// the same node whose end has not been detected.
	ErrDuplicateNode = errors.New("another process has this identity")
	// ErrNotAdmitted means that Admission.Admit rejected the node.
	ErrNotAdmitted = errors.New("the node was not admitted")
	// ErrLevel means that Admission.Admit rejected the node because its build does not support the cluster's feature
	// level.
	ErrLevel = errors.New("the node does not support the feature level of the cluster")
	// ErrCopiedDirectory means that Admission.Admit has detected that the node's data directory is a copy or an earlier
	// state.
	ErrCopiedDirectory = errors.New("the data directory is a copy, or was restored to an earlier state")
	// ErrHandshake means that the received bytes are not a handshake.
	ErrHandshake = errors.New("malformed handshake")
	// ErrFrame means that a frame is too long, has a wrong checksum, or is not allowed on its connection.
	ErrFrame = errors.New("malformed frame")

	// ErrUnreachable means that the node is not connected and the last connection attempt failed. The message was not
	// sent.
	ErrUnreachable = errors.New("node is unreachable")
	// ErrNoAddress means that the address book does not contain the node. The message was not sent.
	ErrNoAddress = errors.New("the node's address is not known")
	// ErrLost means that the connection was lost while the command was in progress. The command may have been executed.
	ErrLost = errors.New("connection lost: outcome unknown")
	// ErrBusy means that this node or the other node has reached a limit in Options. The request had no effect.
	ErrBusy = errors.New("too many requests in flight")
	// ErrTooLong means that a message is longer than Options.FrameBytes.
	ErrTooLong = errors.New("message is too long")
	// ErrOneAnswer means that the response to a Call has several pages.
	ErrOneAnswer = errors.New("a single response was requested, not pages")
	// ErrUnknownCall means that the other node does not support the call. The request had no effect.
	ErrUnknownCall = errors.New("unknown call")
	// ErrSnapshot means that a snapshot did not arrive completely.
	ErrSnapshot = errors.New("snapshot is incomplete")
	// ErrClosed means that the transport is closed.
	ErrClosed = errors.New("transport is closed")

	errDeparted = errors.New("the peer process has ended")
)

// Refused is a rejected handshake. It unwraps to Reason.
type Refused struct {
	// Reason is ErrCluster, ErrVersion, ErrSelf, ErrOtherNode, ErrIdentity, ErrSecret, ErrDuplicateNode,
	// ErrNotAdmitted, ErrLevel, ErrCopiedDirectory, ErrBusy, or ErrHandshake.
	Reason error
	// Text describes the expected and the actual value.
	Text string
	// ByPeer reports whether the other side rejected the handshake.
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

// RemoteError is an error of a handler on the other node.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "remote: " + e.Text }

// status is the status in the response to a handshake or a command. The values are part of the protocol and must not
// change.
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
	statusFailed // a handler has failed; the text is the error
	statusOneAnswer
	statusTwin
	statusLevel
	statusCopy
	statusSecret
	statusUnknownCall
	// Values of 32 and above are the codes of dberr.CodeOf. The text is the error message.
)

var statusErrors = [...]error{
	statusHandshake: ErrHandshake, statusCluster: ErrCluster, statusVersion: ErrVersion, statusSelf: ErrSelf,
	statusOtherNode: ErrOtherNode, statusIdentity: ErrIdentity, statusNotAdmitted: ErrNotAdmitted, statusBusy: ErrBusy,
	statusOneAnswer: ErrOneAnswer, statusTwin: ErrDuplicateNode, statusLevel: ErrLevel, statusCopy: ErrCopiedDirectory,
	statusSecret: ErrSecret, statusUnknownCall: ErrUnknownCall,
}

// statusOf returns the status for an error.
func statusOf(err error) status {
	for s, e := range statusErrors {
		if e != nil && errors.Is(err, e) {
			return status(s)
		}
	}
	if code := dberr.CodeOf(err); code != 0 {
		return status(code)
	}
	return statusFailed
}

// reason returns the error for the status of a handshake. The status may be unknown, because a newer peer may have sent
// it.
func (s status) reason() error {
	if int(s) < len(statusErrors) && statusErrors[s] != nil {
		return statusErrors[s]
	}
	return ErrNotAdmitted
}

// answerError returns the error of a command or a snapshot that has been rejected or has failed on the other node.
func answerError(s status, text string) error {
	if int(s) < len(statusErrors) && statusErrors[s] != nil {
		return fmt.Errorf("%w: %s", statusErrors[s], text)
	}
	if err := dberr.WithCode(byte(s), text); err != nil {
		return err
	}
	return &RemoteError{Text: text}
}
