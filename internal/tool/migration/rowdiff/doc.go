// SPDX-License-Identifier: Apache-2.0

// Package rowdiff compares the rows of a table on two CQL servers cell by cell, including timestamps and remaining
// lifetimes, and generates statements that make the second table equal to the first.
//
// Guarantees: (CE1) Values are the bytes that the source has sent. (CE2) The timestamp of a write or deletion is not
// above the timestamp of the cell in the source, or of the cell that it replaces, so that later writes of clients are
// kept. (CE3) Memory is limited to the pages of both servers, regardless of the size of a table.
//
// The package reads rows (Layout, Stream) and compares them (Differ). It does not manage connections, progress, or
// schemas. Start reading at Differ.Diff.
package rowdiff
