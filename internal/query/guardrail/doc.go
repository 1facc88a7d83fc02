// SPDX-License-Identifier: Apache-2.0

// Package guardrail bounds what statements may ask for: Cassandra's guardrails, by its names and with its texts.
//
// A guardrail is a threshold with a soft bound, which warns the client, and a hard one, which refuses the statement; a
// list of values that are warned of, ignored or refused; or a switch that turns a feature off. Superusers are exempt,
// as in Cassandra. What a refused statement is told in its error it is told as a warning, too.
//
// Start at Guards; Options is the configuration.
package guardrail
