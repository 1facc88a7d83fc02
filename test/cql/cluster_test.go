// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cql

import (
	"flag"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/test/testnode"
	"github.com/ilion-db/ilion/test/topochaos"
)

var stirLong = flag.Bool("stir", false, "also change physical partitions between statements in clusters")

// TestStatementsInCluster checks that statements have the expected results regardless of the number of nodes.
func TestStatementsInCluster(t *testing.T) {
	if *against != "" {
		t.Skip("TestStatements runs the files against a server")
	}
	for _, n := range []int{4, 6} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			runFiles(t, testnode.Start(t, testnode.Options{Nodes: n}).Addrs(), nil)
		})
	}
}

// TestStatementsWhileClusterChanges checks that statements have the expected results while physical partitions split
// and merge between statements. In a cluster of six nodes, partitions also move.
func TestStatementsWhileClusterChanges(t *testing.T) {
	for _, n := range []int{4, 6} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			if !*stirLong {
				t.Skip("takes minutes: needs -stir")
			}
			c := testnode.Start(t, testnode.Options{Nodes: n})
			runFiles(t, c.Addrs(), topochaos.New(t, *stirSeed, c.Webs()...))
		})
	}
}
