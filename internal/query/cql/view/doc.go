// SPDX-License-Identifier: Apache-2.0

// Package view keeps materialized views consistent with their base tables (RFC 0030). It computes view rows from base
// rows, creates the hints of writes, and contains the Keeper, which applies pending updates to the views.
//
// Guarantees:
//
//   - (VW1) The view data of a base row is a function of the base row at the highest stamp that was delivered for the
//     row. Every delivery contains the whole image, has the stamp of a hint as its timestamp, and is read after the
//     hint. Therefore, any order or repetition of deliveries and any leader produce the same result, regardless of
//     clocks.
//   - (VW2) A hint is removed only after it has been applied to the view. A place is removed only after the view
//     has no row there.
//   - (VW3) No write is preceded by a read.
//
// Therefore, the view and the base are equal when no hints remain. Start reading at View and Keeper.
package view
