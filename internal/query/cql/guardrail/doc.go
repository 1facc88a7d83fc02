// SPDX-License-Identifier: Apache-2.0

// Package guardrail enforces Cassandra's guardrails on statements. The option names and error texts are the same as in
// Cassandra.
//
// A guardrail is a threshold, a list of values, or a switch. A threshold has a soft limit, which causes a warning, and
// a hard limit, which rejects the statement. A list contains values that cause a warning, values that are ignored, and
// values that are rejected. A switch disables a feature. As in Cassandra, superusers are exempt. If a statement is
// rejected, the error text is also returned as a warning.
//
// Start reading at Guards. Options holds the configuration.
package guardrail
