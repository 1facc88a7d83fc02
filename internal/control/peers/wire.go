// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Kind is the first byte of a request between nodes. Kinds below KindFirst are commands for replicas.
type Kind = byte

// The kinds of requests. A JSON object follows. Responses are JSON objects, except those to kindStats,
// kindMergeCandidates, and kindQuery.
const (
	KindFirst Kind = 64 + iota
	kindReport
	kindAwait
	kindJoin
	kindAcquire
	kindStop
	kindAcknowledged
	kindStats
	kindMergeCandidates
	kindQuery
)

type acquireResponse struct {
	Version uint64 `json:"version"`
}

// awaitRequest requests Versions.
type awaitRequest struct {
	Version uint64 `json:"version"`
	// Others requests that the node also knows that the other nodes have the version.
	Others bool `json:"others,omitempty"`
}

// acknowledged holds the acknowledged log positions of partitions.
type acknowledged struct {
	To map[topology.PartitionID]uint64 `json:"to"`
}

// JoinRequest is the request of a node to join the cluster.
type JoinRequest struct {
	Node topology.NodeID `json:"node"`
	// CreationID identifies its data directory.
	CreationID uint64 `json:"birth"`
	// Internal, CQL, and HTTP are addresses. HTTP may be empty.
	Internal string `json:"internal"`
	CQL      string `json:"cql"`
	HTTP     string `json:"http"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	// Oldest and Newest are the feature levels that the node supports.
	Oldest feature.Level `json:"level_oldest"`
	Newest feature.Level `json:"level_newest"`
}

// JoinResponse is the response to a JoinRequest.
type JoinResponse struct {
	// Replica is the ID of the node's replica of the meta partition.
	Replica topology.ReplicaID `json:"replica"`
	// Nodes maps the internal addresses of all nodes to their IDs.
	Nodes map[string]topology.NodeID `json:"nodes"`
	// Rejected is the reason for a permanent rejection, or empty.
	Rejected string `json:"refused,omitempty"`
}

// JoinRejectedError is the error of a permanently rejected join request.
type JoinRejectedError struct{ Text string }

func (e *JoinRejectedError) Error() string { return e.Text }

// Host handles the requests of other nodes.
type Host interface {
	// Describe returns this node's report for another node.
	Describe(to topology.NodeID) Report
	// Await returns when the node has a version of the metadata. With others set, it also waits until the node knows
	// the versions of the other nodes.
	Await(ctx context.Context, version uint64, others bool) (Versions, error)
	// Admit admits a node to the cluster. It is idempotent.
	Admit(ctx context.Context, n JoinRequest) (JoinResponse, error)
	// HandleStopping records that the process of another node is about to end.
	HandleStopping(node topology.NodeID)
	// HandleAcknowledged records the acknowledged log positions of partitions.
	HandleAcknowledged(to map[topology.PartitionID]uint64)
	// Stats returns the stats of this node's replicas.
	Stats() NodeStats
	// MergeCandidates returns the merge candidates that this node leads, as encoded by package merge.
	MergeCandidates() []byte
	// HandleQuery handles a Peers.Query about a subject.
	HandleQuery(ctx context.Context, subject string, question []byte) ([]byte, error)
	// Acquire queues a metadata change of the calling node. It returns the metadata version when the change may be
	// made.
	Acquire(ctx context.Context) (version uint64, err error)
}

// Responder sends a response. *transport.Responder implements it.
type Responder interface {
	End(data []byte) error
	Fail(err error)
}

// Serve handles a request whose kind is at least KindFirst.
func Serve(ctx context.Context, h Host, from topology.NodeID, request []byte, a Responder) {
	answer, err := serve(ctx, h, from, request)
	if err != nil {
		a.Fail(err)
		return
	}
	_ = a.End(answer) // the caller may be gone
}

func serve(ctx context.Context, h Host, from topology.NodeID, request []byte) ([]byte, error) {
	body := request[1:]
	switch request[0] {
	case kindReport:
		return json.Marshal(h.Describe(from))
	case kindAwait:
		var q awaitRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		s, err := h.Await(ctx, q.Version, q.Others)
		if err != nil {
			return nil, err
		}
		return json.Marshal(s)
	case kindStats:
		holdings := h.Stats()
		return holdings.append(nil), nil
	case kindMergeCandidates:
		return h.MergeCandidates(), nil
	case kindQuery:
		subject, question, ok := bytes.Cut(body, []byte{0})
		if !ok {
			return nil, errors.New("malformed request: query without a subject")
		}
		return h.HandleQuery(ctx, string(subject), question)
	case kindStop:
		h.HandleStopping(from)
		return []byte("{}"), nil
	case kindAcknowledged:
		var a acknowledged
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		h.HandleAcknowledged(a.To)
		return []byte("{}"), nil
	case kindAcquire:
		version, err := h.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(acquireResponse{version})
	case kindJoin:
		var n JoinRequest
		if err := json.Unmarshal(body, &n); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		if n.Node != from {
			return nil, fmt.Errorf("node %x sent a join request for node %x", from, n.Node)
		}
		w, err := h.Admit(ctx, n)
		if refusal, ok := errors.AsType[*JoinRejectedError](err); ok {
			w, err = JoinResponse{Rejected: refusal.Text}, nil
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(w)
	}
	return nil, fmt.Errorf("unknown request kind %d", request[0])
}

// Join asks a node to admit a new node. It returns a *JoinRejectedError if the node will never be admitted.
func Join(ctx context.Context, c Caller, to topology.NodeID, n JoinRequest) (w JoinResponse, err error) {
	err = call(ctx, c, to, kindJoin, n, &w)
	if err == nil && w.Rejected != "" {
		err = &JoinRejectedError{w.Rejected}
	}
	return w, err
}

// Acquire queues a metadata change on a node: see meta.Keeper.Acquire.
func Acquire(ctx context.Context, c Caller, to topology.NodeID) (version uint64, err error) {
	var a acquireResponse
	err = call(ctx, c, to, kindAcquire, nil, &a)
	return a.Version, err
}

func (p *Peers) call(ctx context.Context, to topology.NodeID, k Kind, question, answer any) error {
	return call(ctx, p.caller, to, k, question, answer)
}

func call(ctx context.Context, c Caller, to topology.NodeID, k Kind, question, answer any) error {
	request := []byte{k}
	if question != nil {
		body, err := json.Marshal(question)
		if err != nil {
			return err
		}
		request = append(request, body...)
	}
	b, err := c.Call(ctx, to, request)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(b, answer)
}
