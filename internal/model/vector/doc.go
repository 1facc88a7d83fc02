// SPDX-License-Identifier: Apache-2.0

// Package vector implements similarity search among vectors of floats. It defines three similarities, codes that bound
// the similarity of a vector, and lists that partition vectors by their nearest center.
//
// Guarantee: All values that are stored or compared with stored data are computed identically on all machines (VE1).
//
// The package does not depend on rows or stores. Start reading at Lists.AppendEntry and Search.
package vector
