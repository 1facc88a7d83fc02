// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/ilion-db/ilion/internal/server/rest"

// surface is what the REST surface of a node has counted; all is 0 where there is none.
func (n *Node) surface() *rest.Stats {
	if n.REST == nil {
		return new(rest.Stats)
	}
	return n.REST
}

// restFigures are those of the REST surface.
var restFigures = []figure{
	count("rest_requests_total", "Requests over REST that were answered.",
		func(n *Node) float64 { return float64(n.surface().Requests.Load()) }),
	count("rest_errors_total", "Requests over REST that were answered with a status of 400 or more.",
		func(n *Node) float64 { return float64(n.surface().Errors.Load()) }),
	count("rest_refused_total", "Requests over REST refused at a bound of the REST server or for the sake of the machine.",
		func(n *Node) float64 { return float64(n.surface().Refused.Load()) }),
	level("rest_requests_in_flight", "Requests over REST that are under way.",
		func(n *Node) float64 { return float64(n.surface().InFlight.Load()) }),
	level("rest_request_bytes_in_flight", "Memory held for the bodies of requests over REST that are under way.",
		func(n *Node) float64 { return float64(n.surface().InFlightBytes.Load()) }),
	level("rest_connections", "Open connections over REST.",
		func(n *Node) float64 { return float64(n.surface().Connections.Load()) }),
	count("rest_connections_refused_total", "Connections over REST that were refused or had to go: too many were open.",
		func(n *Node) float64 { return float64(n.surface().Crowded.Load()) }),
}
