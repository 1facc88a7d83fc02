// SPDX-License-Identifier: Apache-2.0

// Package history judges what the clients of a store did and saw: whether their transactions were serializable, in the
// order of time, and if not, which anomaly it is, and whether snapshot isolation would have allowed it.
//
// It is Adya's graph of dependencies. Its nodes are transactions; one depends on another if it overwrote or read what
// that one wrote, or read what that one overwrote, or began when that one had ended. Each version of an item is written
// once, and who writes it says what it was written over, as far as that is known: so the order of versions is given
// and not guessed, and a cycle is a proof. What is not known is left out, which hides cycles and never makes one.
//
// Start at Check.
package history
