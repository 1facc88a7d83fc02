// SPDX-License-Identifier: Apache-2.0

// Package view has materialized views follow their base tables: what a row of the base makes of a row of the view, the
// hints that writes leave, and the Keeper that has the views follow them (RFC 0030).
//
// Guarantees: (VW1) what a view has of a base row is a function of the base row as it was at the highest stamp that
// was delivered for it: every delivery carries the whole image, timestamped with the stamp of a hint and read after
// it, so any order, any repetition and any leader, whatever its clock shows, come to the same; (VW2) a hint is
// removed only when the view has followed it, and what it says of places only when nothing is there any more; (VW3)
// nothing here reads before a write. So at quiescence, when no hints are left, view and base agree. Start at View and
// Keeper.
package view
