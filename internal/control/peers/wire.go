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

// Kind is the first byte of a request between nodes. Those below KindFirst are commands for replicas.
type Kind = byte

// The kinds of request; a JSON object follows, as in answers but those to kindHoldings, kindQuiet and
// kindAsk.
const (
	KindFirst Kind = 64 + iota
	kindReport
	kindAwait
	kindJoin
	kindTurn
	kindStop
	kindAcknowledged
	kindHoldings
	kindQuiet
	kindAsk
)

type turnAnswer struct {
	Version uint64 `json:"version"`
}

// awaitRequest is answered with a Standing.
type awaitRequest struct {
	Version uint64 `json:"version"`
	// Others says that the node is also to know that the others have the version.
	Others bool `json:"others,omitempty"`
}

// acknowledged is how far the logs of partitions are acknowledged.
type acknowledged struct {
	To map[topology.PartitionID]uint64 `json:"to"`
}

// Newcomer is a node that wants to join, as it describes itself.
type Newcomer struct {
	Node topology.NodeID `json:"node"`
	// Birth is that of its data directory.
	Birth uint64 `json:"birth"`
	// Internal, CQL and HTTP are addresses; HTTP may be empty.
	Internal string `json:"internal"`
	CQL      string `json:"cql"`
	HTTP     string `json:"http"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	// Oldest and Newest are the feature levels that its build understands.
	Oldest feature.Level `json:"level_oldest"`
	Newest feature.Level `json:"level_newest"`
}

// Welcome answers a Newcomer.
type Welcome struct {
	// Replica is the id of its replica of the meta partition.
	Replica topology.ReplicaID `json:"replica"`
	// Nodes are the internal addresses of all nodes.
	Nodes map[string]topology.NodeID `json:"nodes"`
	// Refused, if not empty, says why the newcomer is not taken in, and that asking again is of no use.
	Refused string `json:"refused,omitempty"`
}

// Refusal is the error of a newcomer that is not taken in, however often it asks.
type Refusal struct{ Text string }

func (e *Refusal) Error() string { return e.Text }

// Host is the node that answers.
type Host interface {
	// Describe is the node's report to another one.
	Describe(to topology.NodeID) Report
	// Await returns when the node has a version of the records, and with others knows that of the other nodes, or ctx
	// ended.
	Await(ctx context.Context, version uint64, others bool) (Standing, error)
	// Admit takes a newcomer in; it may be asked again for the same one.
	Admit(ctx context.Context, n Newcomer) (Welcome, error)
	// Stops is told that the process of another node is about to end.
	Stops(node topology.NodeID)
	// Acknowledged is told how far the logs of partitions are acknowledged.
	Acknowledged(to map[topology.PartitionID]uint64)
	// Holdings is what the replicas on the node take.
	Holdings() Holdings
	// Quiet is what control/merge encodes of the partitions that are led on the node and could be merged.
	Quiet() []byte
	// Answer answers a question of Peers.Ask about a subject.
	Answer(ctx context.Context, subject string, question []byte) ([]byte, error)
	// Enter returns when it is the turn of the asking node to change the records, with their version.
	Enter(ctx context.Context) (version uint64, err error)
}

// Answer carries an answer back; *transport.Responder is one.
type Answer interface {
	End(data []byte) error
	Fail(err error)
}

// Serve answers a request that begins with a kind from KindFirst on.
func Serve(ctx context.Context, h Host, from topology.NodeID, request []byte, a Answer) {
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
	case kindHoldings:
		holdings := h.Holdings()
		return holdings.append(nil), nil
	case kindQuiet:
		return h.Quiet(), nil
	case kindAsk:
		subject, question, ok := bytes.Cut(body, []byte{0})
		if !ok {
			return nil, errors.New("malformed request: a question without a subject")
		}
		return h.Answer(ctx, string(subject), question)
	case kindStop:
		h.Stops(from)
		return []byte("{}"), nil
	case kindAcknowledged:
		var a acknowledged
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		h.Acknowledged(a.To)
		return []byte("{}"), nil
	case kindTurn:
		version, err := h.Enter(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(turnAnswer{version})
	case kindJoin:
		var n Newcomer
		if err := json.Unmarshal(body, &n); err != nil {
			return nil, fmt.Errorf("malformed request: %w", err)
		}
		if n.Node != from {
			return nil, fmt.Errorf("node %x asks in the name of node %x", from, n.Node)
		}
		w, err := h.Admit(ctx, n)
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			w, err = Welcome{Refused: refusal.Text}, nil
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(w)
	}
	return nil, fmt.Errorf("requests of kind %d are not known to this version", request[0])
}

// Join asks a node to take a newcomer in. A *Refusal says that it never will.
func Join(ctx context.Context, c Caller, to topology.NodeID, n Newcomer) (w Welcome, err error) {
	err = call(ctx, c, to, kindJoin, n, &w)
	if err == nil && w.Refused != "" {
		err = &Refusal{w.Refused}
	}
	return w, err
}

// Turn asks a node for the turn to change the records: see meta.Keeper.Enter.
func Turn(ctx context.Context, c Caller, to topology.NodeID) (version uint64, err error) {
	var a turnAnswer
	err = call(ctx, c, to, kindTurn, nil, &a)
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
