// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// TestQuiet proves that what happens again and again is said once in a while, how often it was not said, and that the
// things which are told apart are bounded.
func TestQuiet(t *testing.T) {
	synctest.Test(t, testQuiet)
}

func testQuiet(t *testing.T) {
	var q quiet
	said := 0
	for range 100 {
		if q.allow("a") {
			said++
		}
	}
	if said != 1 || !q.allow("b") {
		t.Fatalf("said %d times", said)
	}
	time.Sleep(quietTime) // the bubble's time
	if omitted, ok := q.count("a"); !ok || omitted != 99 {
		t.Fatalf("%d, %v", omitted, ok)
	}
	for i := range 10 * quietKeys {
		if q.allow(fmt.Sprint("stranger ", i)) {
			said++
		}
	}
	if len(q.said) > quietKeys+1 || said > quietKeys+2 {
		t.Errorf("%d things are kept, %d were said", len(q.said), said)
	}
}

// TestTwinWatch proves that a node gives up when others have said for a while that it is somebody else, and not when
// they say it now and then: after each of its restarts, say.
func TestTwinWatch(t *testing.T) {
	const silence = time.Second
	w := twinWatch{patience: twinSilences * silence}
	now := time.Unix(1_000, 0)
	for range 5 {
		if w.refused(now) || w.refused(now.Add(silence)) {
			t.Fatal("it gives up at once")
		}
		now = now.Add(time.Hour)
	}
	gaveUp := false
	for range 10 {
		now = now.Add(time.Second)
		gaveUp = gaveUp || w.refused(now)
	}
	if !gaveUp {
		t.Fatal("it never gives up")
	}
}

// TestHopeless proves which failures to join end the start, and which are waited out.
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
		if got := hopeless(errors.Join(errors.New("another"), c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
