// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// TestDuplicateWatch checks that a node stops if other nodes have rejected it as a duplicate for a while, but not if
// they reject it occasionally, such as after each restart.
func TestDuplicateWatch(t *testing.T) {
	const silence = time.Second
	w := duplicateWatch{threshold: duplicateIntervals * silence}
	now := time.Unix(1_000, 0)
	for range 5 {
		if w.rejected(now) || w.rejected(now.Add(silence)) {
			t.Fatal("it stops immediately")
		}
		now = now.Add(time.Hour)
	}
	gaveUp := false
	for range 10 {
		now = now.Add(time.Second)
		gaveUp = gaveUp || w.rejected(now)
	}
	if !gaveUp {
		t.Fatal("it never stops")
	}
}

// TestHopeless checks which failures to join are permanent and which are retried.
func TestHopeless(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&transport.Refused{Reason: transport.ErrCluster, ByPeer: true}, true},
		{&transport.Refused{Reason: transport.ErrNotAdmitted, ByPeer: true}, true},
		{fmt.Errorf("handshake: %w", transport.ErrHandshake), true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, true},
		{&transport.Refused{Reason: transport.ErrDuplicateNode, ByPeer: true}, false},
		{&transport.Refused{Reason: transport.ErrBusy, ByPeer: true}, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
	} {
		if got := isPermanent(errors.Join(errors.New("another"), c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
