// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/ilion-db/ilion/internal/server/rest"

// surface returns the counters of the REST server. If REST is disabled, it returns zero values.
func (n *Reporter) surface() *rest.Stats {
	if n.REST == nil {
		return new(rest.Stats)
	}
	return n.REST
}

// restFigures are the metrics of the REST server.
var restFigures = []figure{
	count("rest_requests_total", "REST requests completed.",
		func(n *Reporter) float64 { return float64(n.surface().Requests.Load()) }),
	count("rest_errors_total", "REST requests that returned a status of 400 or higher.",
		func(n *Reporter) float64 { return float64(n.surface().Errors.Load()) }),
	count("rest_refused_total", "REST requests rejected at a limit of the REST server or because the node was overloaded.",
		func(n *Reporter) float64 { return float64(n.surface().Refused.Load()) }),
	level("rest_requests_in_flight", "REST requests in flight.",
		func(n *Reporter) float64 { return float64(n.surface().InFlight.Load()) }),
	level("rest_request_bytes_in_flight", "Memory used by the bodies of REST requests in flight.",
		func(n *Reporter) float64 { return float64(n.surface().InFlightBytes.Load()) }),
	level("rest_connections", "Open REST connections.",
		func(n *Reporter) float64 { return float64(n.surface().Connections.Load()) }),
	count("rest_connections_refused_total", "REST connections rejected or closed because too many were open.",
		func(n *Reporter) float64 { return float64(n.surface().Crowded.Load()) }),
}
