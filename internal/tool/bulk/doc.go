// SPDX-License-Identifier: Apache-2.0

// Package bulk moves rows between the tables of a CQL server and files in CSV or JSON lines format. Load reads files,
// and Unload writes files. The package works with any CQL server.
//
// Guarantees: (LD1) The server has acknowledged every row that Load counts as loaded. Every other row is in the error
// file. (LD2) If a load is killed and repeated, it resumes after the last block whose rows were all acknowledged. Some
// rows may be written twice, but no row is omitted. (LD3) In an export to a directory, a file receives its final name
// only when it is complete and synced. (LD4) Memory is limited, regardless of the size of files and tables.
//
// The connections process a file in blocks of complete records (source.go). Blocks complete in any order, but are
// committed in file order (checkpoint.go). Start reading at Load and Unload.
package bulk
