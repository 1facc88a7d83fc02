// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// This file defines the cluster-wide diagnostics that keyspace ilion, HTTP, and the command-line tools show. Nodes and
// IDs are in hex. Silent lists the nodes that did not respond in time. The data of these nodes is missing.

// Session is the connection of a client, over CQL or over REST.
type Session struct {
	// ID identifies the session in the cluster. ID is used to cancel the session.
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	// State is ready or connecting. A connecting client has not sent most of its properties.
	State         string `json:"state"`
	User          string `json:"user"`
	Driver        string `json:"driver"`
	DriverVersion string `json:"driver_version"`
	// Protocol is the version of the CQL binary protocol, or 0 over REST.
	Protocol int    `json:"protocol"`
	Keyspace string `json:"keyspace"`
	TLS      bool   `json:"tls"`
	// ActiveRequests is the number of requests in progress. Requests is the total number of requests.
	ActiveRequests int       `json:"requests_under_way"`
	Requests       int64     `json:"requests"`
	Since          time.Time `json:"since"`
	// Statement is the longest-running statement, without constants. Millis is its duration so far. Statement is empty
	// if no request is in progress. Over REST, it is the operation with its database and container.
	Statement string  `json:"statement"`
	Millis    float64 `json:"statement_ms"`
}

// Sessions holds the busiest sessions.
type Sessions struct {
	// Connections is the total number of sessions.
	Connections int       `json:"connections"`
	Sessions    []Session `json:"sessions"`
	Silent      []string  `json:"silent"`
}
