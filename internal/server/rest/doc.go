// SPDX-License-Identifier: Apache-2.0

// Package rest serves the Cosmos DB REST API.
//
// A Server accepts HTTP connections, authenticates each request by its signature, and finds the operation of the
// request in its routes. A handler for each kind of resource calls the Engine and returns the response. The package
// has its own HTTP/1.1 server, which parses requests with package httpwire (RFC 0028).
//
// Unauthenticated clients cannot lock out other clients. When a connection limit is reached, the oldest
// unauthenticated connection is closed. The number of concurrent requests and the memory of their bodies are also
// limited.
//
// Start reading at Server.Serve, and continue with conn.serve and exchange.serve.
package rest
