// SPDX-License-Identifier: Apache-2.0

// Package guardrail limits statements by Cassandra's guardrails, with Cassandra's names and texts.
//
// A guardrail is a threshold, a list of values, or a switch. A threshold has a soft limit, which causes a warning, and
// a hard limit, which rejects the statement. A list of values has values that cause a warning, are ignored, or are
// rejected. A switch disables a feature. As in Cassandra, superusers are exempt, and a rejected statement returns the
// error text also as a warning.
//
// Start reading at Guards. Options is the configuration.
package guardrail
