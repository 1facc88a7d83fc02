// SPDX-License-Identifier: Apache-2.0

// Package advise says what is wrong with the design of a table, from its declaration, from a sample of its rows and
// from what it is asked: logical partitions that are large, grow without bound or are uneven, tables that keep one row
// where many were meant, queries that ask all physical partitions, conditions.
//
// Guarantees: (AD1) every finding has evidence in numbers, and a table that has no rows and is asked nothing gives
// none; (AD2) every effect of a proposal is computed from the sample and with the prices of package ru: there is no
// second price list; (AD3) what is an estimate says how far it may be off; (AD4) the same input gives the same report.
// The package reads nothing by itself: it knows no node and no clock. Start at Advise, then rules.
package advise
