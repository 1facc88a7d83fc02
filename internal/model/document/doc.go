// SPDX-License-Identifier: Apache-2.0

// Package document holds the JSON values of items: parsed with bounds, looked into without being decoded, compared in
// Cosmos DB's order, and written again byte for byte where nothing was changed.
//
// Guarantees: (JD1) a Value made by Parse is valid JSON of bounded depth and size, valid UTF-8, and names each member
// of an object once; (JD2) what was parsed keeps its text: the order of members and the spelling of numbers are those
// that were sent, whatever else of the document is changed; (JD3) no text, not even one that was never parsed, makes a
// lookup panic or read outside it.
//
// The rules where JSON leaves room: of members of the same name the last counts, as in JavaScript, at the place of the
// first, and the others are left out of the text; invalid UTF-8 is refused; an escape of half a surrogate pair stays in
// the text as it is and reads as U+FFFD; a number beyond IEEE 754 binary64 is refused, one with more digits keeps them
// in the text and compares as the nearest double.
//
// Start at Value, then Parse; path.go has the paths of keys and indexes, build.go changes documents, patch.go patches.
package document
