// SPDX-License-Identifier: Apache-2.0

// Package view keeps materialized views consistent with their base tables (RFC 0030). It computes view rows from base
// rows and creates the hints of writes. It also contains the Keeper, which applies pending updates to the views.
//
// Guarantees:
//
//   - (VW1) The view data of a base row is a function of the base row at the highest delivered stamp of the row. Every
//     delivery contains the whole image and uses the stamp of a hint as its timestamp. The base row is read after the
//     hint. Therefore, the result does not depend on the order or repetition of deliveries, the leader, or clocks.
//   - (VW2) A hint is removed only after the hint has been applied to the view. A place is removed only after the view
//     has no row at the place.
//   - (VW3) Writes do not require a preceding read.
//
// Therefore, when no hints remain, the view is consistent with the base table. Start reading at View and Keeper.
package view
