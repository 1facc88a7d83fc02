// SPDX-License-Identifier: Apache-2.0

// Package vector knows what is near to what among vectors of floats: the three similarities, codes
// of vectors that tell how near they may be at most, and lists of vectors around centres.
//
// Guarantee: (VE1) everything that is stored, or compared with what is stored, is computed alike on all machines.
//
// It knows nothing of rows or stores. Start at Lists.AppendEntry and Search.
package vector
