// SPDX-License-Identifier: Apache-2.0

// Package rowdiff compares the rows of a table on two CQL servers cell by cell. It includes timestamps and remaining
// lifetimes. It generates statements that make the second table equal to the first table.
//
// Guarantees: (CE1) Values are the bytes that the source has sent. (CE2) A write or deletion never has a higher
// timestamp than the cell in the source, or than the cell that it replaces. Therefore, later writes of clients are
// kept. (CE3) The memory use is limited to the pages of both servers, regardless of the size of a table.
//
// The package reads rows (Layout, Stream) and compares them (Differ). It does not manage connections, progress, or
// schemas. Start reading at Differ.Diff.
package rowdiff
