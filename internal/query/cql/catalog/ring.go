// SPDX-License-Identifier: Apache-2.0

package catalog

// RingNode is a node on the token ring that drivers see.
type RingNode struct {
	Node string `json:"node"`
	// Address is the address for CQL clients.
	Address string `json:"address"`
	State   string `json:"state"`
	Region  string `json:"region"`
	Zone    string `json:"zone"`
	// Tokens holds the tokens of the node. Share is the fraction of the ring for which drivers assume that the node is
	// the first replica.
	Tokens []int64 `json:"tokens"`
	Share  float64 `json:"share"`
	// Replicas is the number of physical partition replicas on the node. Leading is the number of leaders among these
	// replicas. DiskBytes is the size of the node's data on disk.
	Replicas  int    `json:"replicas"`
	Leading   int    `json:"leading"`
	DiskBytes uint64 `json:"disk_bytes"`
}

// Endpoints is the location of a logical partition.
type Endpoints struct {
	Table     string `json:"table"`
	Token     int64  `json:"token"`
	Partition uint64 `json:"partition"`
	// BeginToken is the first token of the physical partition, and EndToken is the last token.
	BeginToken int64 `json:"begin_token"`
	EndToken   int64 `json:"end_token"`
	// Leader is the node ID of the leader, or empty if the leader is unknown.
	Leader   string            `json:"leader"`
	Replicas []EndpointReplica `json:"replicas"`
}

// EndpointReplica is a replica of a logical partition.
type EndpointReplica struct {
	Node string `json:"node"`
	// Address is the address for CQL clients. Internal is the address for other nodes.
	Address  string `json:"address"`
	Internal string `json:"internal"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	// State is the state of the replica: voter, joining, learner, or leaving. Up reports whether the node of the
	// replica responds.
	State string `json:"state"`
	Up    bool   `json:"up"`
}
