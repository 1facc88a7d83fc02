// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// These are the calls between members of a cluster, and from a node to the cluster that it joins.
var (
	// ReportCall requests the state of a node.
	ReportCall = rpc.Declare[rpc.None, Report](rpc.Spec{Name: "report", Number: 65, Since: 1, Timeout: time.Second,
		ResponseMax: rpc.SmallBytes, Idempotent: true})
	// AwaitCall waits until a node has a version of the metadata.
	AwaitCall = rpc.Declare[AwaitRequest, Versions](rpc.Spec{Name: "await version", Number: 66, Since: 1,
		Timeout: time.Second, RequestMax: rpc.SmallBytes, ResponseMax: rpc.SmallBytes, Idempotent: true})
	// JoinCall admits a node to the cluster. See Join.
	JoinCall = rpc.Declare[JoinRequest, JoinResponse](rpc.Spec{Name: "join", Number: 67, Since: 1,
		Timeout: 5 * time.Second, RequestMax: rpc.SmallBytes, Idempotent: true})
	// AcquireCall queues a metadata change on the leader of the meta partition; see meta.Keeper.Acquire.
	AcquireCall = rpc.Declare[rpc.None, AcquireResponse](rpc.Spec{Name: "acquire", Number: 68, Since: 1,
		Timeout: 2 * time.Second, ResponseMax: rpc.SmallBytes})
	// StopCall announces that the process of the sender is stopping.
	StopCall = rpc.Declare[rpc.None, rpc.None](rpc.Spec{Name: "stop", Number: 69, Since: 1, Timeout: time.Second,
		Idempotent: true})
	// AcknowledgedCall sends the acknowledged log positions of partitions.
	AcknowledgedCall = rpc.Declare[Acknowledged, rpc.None](rpc.Spec{Name: "acknowledged", Number: 70, Since: 1,
		Timeout: time.Second, Idempotent: true})
	// StatsCall requests the sizes and loads of the replicas on a node.
	StatsCall = rpc.Declare[rpc.None, NodeStats](rpc.Spec{Name: "replica stats", Number: 71, Since: 3,
		Timeout: 5 * time.Second, Idempotent: true})
)

// AcquireResponse is the response to AcquireCall.
type AcquireResponse struct {
	// Version is the metadata version at which the change may be made.
	Version uint64 `json:"version"`
}

// AwaitRequest is a request to wait until a node has a version of the metadata.
type AwaitRequest struct {
	Version uint64 `json:"version"`
	// Others makes the node also wait until it knows that the other nodes have the version.
	Others bool `json:"others,omitempty"`
}

// Acknowledged holds the acknowledged log positions of partitions.
type Acknowledged struct {
	To map[topology.PartitionID]uint64 `json:"to"`
}

// JoinRequest is the request of a node to join the cluster.
type JoinRequest struct {
	Node topology.NodeID `json:"node"`
	// CreationID identifies the data directory of the node.
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

// JoinRejectedError means that a join request was permanently rejected.
type JoinRejectedError struct{ Text string }

func (e *JoinRejectedError) Error() string { return e.Text }

// Join requests the admission of a node. It returns a *JoinRejectedError if the node will never be admitted.
func Join(ctx context.Context, c *rpc.Client, to topology.NodeID, n JoinRequest) (JoinResponse, error) {
	w, err := JoinCall.Do(ctx, c, to, n)
	if err == nil && w.Rejected != "" {
		err = &JoinRejectedError{w.Rejected}
	}
	return w, err
}
