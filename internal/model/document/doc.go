// SPDX-License-Identifier: Apache-2.0

// Package document implements the JSON values of items. Values are parsed with limits, accessed without decoding,
// compared in Cosmos DB's order, and written back byte for byte where they have not been changed.
//
// Guarantees:
//
//   - (JD1) A Value returned by Parse is valid JSON of limited depth and size, in valid UTF-8, without duplicate names
//     in an object.
//   - (JD2) A parsed value keeps its text, including the order of members and the spelling of numbers, even if other
//     parts of the document are changed.
//   - (JD3) No text, even if it has never been parsed, makes a lookup panic or read outside the text.
//
// Where JSON leaves a choice, the rules are:
//
//   - Of several members with the same name, the last value counts, at the position of the first, as in JavaScript. The
//     others are removed from the text.
//   - Invalid UTF-8 is rejected.
//   - An escaped lone surrogate is kept in the text and reads as U+FFFD.
//   - A number outside the range of IEEE 754 binary64 is rejected. A number with more digits keeps them in its text,
//     and compares as the nearest double.
//
// Decode uses the same parser for JSON in CQL. Its rules differ in details, and its errors state the fault and its
// position, because clients receive the messages of Cassandra's parser.
//
// Start reading at Value, then read Parse. The paths of keys and indexes are in path.go, changes
// of documents in
// build.go, and patches in patch.go.
package document
