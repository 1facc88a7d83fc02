// SPDX-License-Identifier: Apache-2.0

//go:build race

package transport_test

const raceEnabled = true
