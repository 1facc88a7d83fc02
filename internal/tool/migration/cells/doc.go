// SPDX-License-Identifier: Apache-2.0

// Package cells compares the rows of a table on two CQL servers cell by cell, with the time at which each cell was
// written and how long it has left to live, and says by which statements the second becomes as the first is.
//
// Guarantees: (CE1) values are the bytes that the source has sent; (CE2) every write and every deletion carries a
// timestamp that is not above that of the cell in the source, or that of the cell that it replaces, so that whatever a
// client has written later stays; (CE3) memory is bounded by the pages of both servers, whatever the size of a table.
//
// It knows how rows are read (Layout, Stream) and what is different (Differ), and nothing of connections, of what was
// copied before or of schemas. Start at Differ.Diff.
package cells
