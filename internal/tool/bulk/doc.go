// SPDX-License-Identifier: Apache-2.0

// Package bulk moves the rows of tables between a CQL server and files of CSV or JSON lines: Load and Unload. It speaks
// to any CQL server.
//
// Guarantees: (LD1) a row that Load counts as loaded was acknowledged by the server, and one that is not is in the
// error file; (LD2) a load that was killed and is run again goes on behind the last block of rows all of which were
// acknowledged, so that some rows are written twice and none is left out; (LD3) a file of an unload in a directory has
// its name only when it is whole and synced; (LD4) memory is bounded, whatever the size of files and tables.
//
// A file is read in blocks of whole records, which the connections take in turn (source.go); blocks end in any order,
// and are committed in that of the file (checkpoint.go). Start at Load and Unload.
package bulk
