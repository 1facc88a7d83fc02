// SPDX-License-Identifier: Apache-2.0

// Package bulk moves rows between the tables of a CQL server and files in CSV or JSON lines format: Load and Unload.
// The package works with any CQL server.
//
// Guarantees: (LD1) A row that Load counts as loaded was acknowledged by the server; every other row is in the error
// file. (LD2) A load that was killed and is repeated resumes after the last block whose rows were all acknowledged.
// Some rows may be written twice, but none is omitted. (LD3) In an export to a directory, a file receives its final
// name only when it is complete and synced. (LD4) Memory is limited, regardless of the size of files and tables.
//
// A file is read in blocks of complete records, which the connections process (source.go). Blocks complete in any
// order and are committed in file order (checkpoint.go). Start reading at Load and Unload.
package bulk
