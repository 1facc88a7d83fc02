// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// What operators ask a cluster, as keyspace ilion, HTTP and the tools tell it. Node and ID are in hex; Silent are the
// nodes that did not answer in time, so that what they would have told is missing.

// Session is the connection of a CQL client.
type Session struct {
	// ID names it in the whole cluster, for cancelling it.
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	// State is ready, or connecting: then next to nothing is known of the client.
	State         string `json:"state"`
	User          string `json:"user"`
	Driver        string `json:"driver"`
	DriverVersion string `json:"driver_version"`
	Protocol      int    `json:"protocol"`
	Keyspace      string `json:"keyspace"`
	TLS           bool   `json:"tls"`
	// UnderWay is how many requests are, Requests how many came so far.
	ActiveRequests int       `json:"requests_under_way"`
	Requests       int64     `json:"requests"`
	Since          time.Time `json:"since"`
	// Statement is the one that is under way longest, for Millis now, without its constants; empty if there is none.
	Statement string  `json:"statement"`
	Millis    float64 `json:"statement_ms"`
}

// Sessions are those that have most to do.
type Sessions struct {
	// Connections is how many there are, of which Sessions are some.
	Connections int       `json:"connections"`
	Sessions    []Session `json:"sessions"`
	Silent      []string  `json:"silent"`
}

// RingNode is a node on the ring that drivers see, beside what it really holds.
type RingNode struct {
	Node string `json:"node"`
	// Address is where CQL clients connect.
	Address string `json:"address"`
	State   string `json:"state"`
	Region  string `json:"region"`
	Zone    string `json:"zone"`
	// Tokens are its places on the ring. Share is the part of the ring that ends at them, which drivers take it to be
	// the first replica of.
	Tokens []int64 `json:"tokens"`
	Share  float64 `json:"share"`
	// Replicas are those of physical partitions that it has, Leading the ones of them that lead, and DiskBytes what it
	// has on disk.
	Replicas  int    `json:"replicas"`
	Leading   int    `json:"leading"`
	DiskBytes uint64 `json:"disk_bytes"`
}

// Endpoints say where a logical partition is.
type Endpoints struct {
	Table     string `json:"table"`
	Token     int64  `json:"token"`
	Partition uint64 `json:"partition"`
	// BeginToken and EndToken are the first and the last token of the physical partition.
	BeginToken int64 `json:"begin_token"`
	EndToken   int64 `json:"end_token"`
	// Leader is the node that leads it, empty if that is not known.
	Leader   string            `json:"leader"`
	Replicas []EndpointReplica `json:"replicas"`
}

// EndpointReplica is a replica of a logical partition.
type EndpointReplica struct {
	Node string `json:"node"`
	// Address is where CQL clients reach the node, Internal where nodes do.
	Address  string `json:"address"`
	Internal string `json:"internal"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	// State is that of the replica: voter, joining, learner or leaving; Up says whether its node answers.
	State string `json:"state"`
	Up    bool   `json:"up"`
}

// TableFigures is what all nodes together know of a table.
type TableStats struct {
	// Rows and LogicalBytes are estimates from a sample of logical partitions, exact if Exact; they are unknown, and 0,
	// unless Sampled.
	Rows         uint64 `json:"rows"`
	LogicalBytes uint64 `json:"logical_bytes"`
	Sampled      bool   `json:"sampled"`
	Exact        bool   `json:"exact"`
	// Dead is how many deletions, and values that have expired, are stored still, at least so many if DeadMore.
	// SweepLag is for how many seconds the oldest of them could have been removed, 0 if none could.
	Tombstones       uint64 `json:"tombstones"`
	TombstonesOrMore bool   `json:"tombstones_or_more"`
	SweepLag         int64  `json:"sweep_lag_seconds"`
	// Read, Scan and Write are how long the coordinators of all nodes took since they started.
	Read  Latency `json:"read"`
	Scan  Latency `json:"scan"`
	Write Latency `json:"write"`
	// Views are how far the views of the table are behind, by the id of their index of hints.
	Views map[uint32]ViewLag `json:"-"`
	// Silent are the nodes that did not answer.
	Silent []string `json:"silent"`
}
