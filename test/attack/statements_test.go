// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// TestPrepares checks A3. Different prepared statements of a wide table must use no more than their share of memory.
// The same applies to large statements that many clients send concurrently.
func TestPrepares(t *testing.T) {
	v := startVictim(t)
	v.do("CREATE TABLE ks.wide (k int PRIMARY KEY, " + many(3_000, ",", "c%d int") + ")")
	v.observe()
	prepares := 300
	if *long {
		prepares = 3_000
	}
	v.prepare(prepares)
	large := "SELECT k FROM ks.wide WHERE k IN (" + many(400_000, ",", "1") + ")"
	v.mute(8, func(c *rawclient.Conn) {
		for i := range int16(4) {
			if _, err := c.Write(request(i, large)); err != nil {
				return
			}
		}
	})
	v.answers("a large statement between other statements", large)
	v.endure()
}

// prepare prepares n statements that return all columns.
func (v *victim) prepare(n int) {
	v.t.Helper()
	c := v.dial()
	defer c.Close()
	for i := range n {
		if _, err := c.Prepare(fmt.Sprintf("SELECT * FROM ks.wide LIMIT %d", i+1)); err != nil {
			v.t.Fatal(err)
		}
	}
}
