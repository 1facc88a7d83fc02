// SPDX-License-Identifier: Apache-2.0

// Package document implements the JSON values of items. Values are parsed with limits, accessed without decoding, and
// compared in Cosmos DB's order. Unchanged parts of a value are written back byte for byte.
//
// Guarantees:
//
//   - (JD1) A Value that Parse returns is valid JSON of limited depth and size. It is valid UTF-8, and no object has
//     duplicate names.
//   - (JD2) A parsed value keeps its text, including the order of members and the spelling of numbers, even if other
//     parts of the document are changed.
//   - (JD3) No text, even if it has never been parsed, makes a lookup panic or read outside the text.
//
// JSON leaves some choices to implementations. This package follows these rules:
//
//   - If several members have the same name, the value of the last member is used at the position of the first member,
//     as in JavaScript. The other members are removed from the text.
//   - Invalid UTF-8 is rejected.
//   - An escaped lone surrogate is kept in the text and decodes to U+FFFD.
//   - A number outside the range of IEEE 754 binary64 is rejected. A number with more digits keeps its digits in the
//     text, and compares as the nearest double.
//
// Decode uses the same parser for JSON in CQL. The rules for CQL differ in details. The errors contain the fault and
// its position, because clients receive the messages of Cassandra's parser.
//
// Start reading at Value, and continue with Parse. The file path.go contains the paths of keys and indexes, build.go
// contains changes of documents, and patch.go contains patches.
package document
