// SPDX-License-Identifier: Apache-2.0

// Package advise finds problems in the design of a table from its declaration, a sample of its rows, and its requests.
// It finds large, growing, or uneven logical partitions, tables that keep one row instead of many rows, queries of all
// physical partitions, and conditional writes.
//
// Guarantees:
//
//   - (AD1) Every finding has numeric evidence. A table without rows and requests has no findings.
//   - (AD2) The effects of proposals are computed from the sample and the prices of package ru.
//   - (AD3) Every estimate includes its possible error.
//   - (AD4) The same input yields the same report.
//
// The package does not read data, and it does not depend on nodes or clocks. Start reading at Advise, and then read
// rules.
package advise
