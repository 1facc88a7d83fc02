// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// The types in this file are cluster-wide diagnostics for keyspace ilion, the HTTP interface, and the command-line
// tools. Node IDs and session IDs are hexadecimal. Silent lists the nodes that did not respond in time, whose data is
// missing.

// Session is a client connection that uses CQL or REST.
type Session struct {
	// ID identifies the session in the cluster. An operator uses the ID to cancel the session.
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	// State is ready or connecting. A connecting client has not sent most of its properties.
	State         string `json:"state"`
	User          string `json:"user"`
	Driver        string `json:"driver"`
	DriverVersion string `json:"driver_version"`
	// Protocol is the version of the CQL binary protocol, or 0 for REST.
	Protocol int    `json:"protocol"`
	Keyspace string `json:"keyspace"`
	TLS      bool   `json:"tls"`
	// ActiveRequests is the number of requests in progress. Requests is the total number of requests.
	ActiveRequests int       `json:"requests_under_way"`
	Requests       int64     `json:"requests"`
	Since          time.Time `json:"since"`
	// Statement is the longest-running statement without constants. For REST, Statement contains the operation, the
	// database, and the container. If no request is in progress, Statement is empty. Millis is the elapsed time of the
	// statement.
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
