// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/eventually"
)

// TestUsersAreShown checks that users are listed with their requests, the cost of the requests, and their throttled
// requests. Without logins, the address is the user.
func TestUsersAreShown(t *testing.T) {
	addr, s := shop(t, "(customer int PRIMARY KEY, items text) WITH throughput = 400")
	written, refused := 0, 0
	write := func() {
		const insert = "INSERT INTO shop.orders (customer, items) VALUES (?, ?)"
		// Each write costs nearly 50 RU. Every machine can execute more than eight such writes per second.
		err := s.Query(insert, written, strings.Repeat("x", kb100)).Exec()
		switch {
		case err == nil:
			written++
		case strings.HasPrefix(err.Error(), "Request rate is large"):
			refused++
		default:
			t.Fatal(err)
		}
	}
	for refused == 0 {
		write()
	}
	host, _, _ := strings.Cut(addr, ":")
	eventually.True(t, "the user is listed", func() bool {
		write() // the rate per second is an average over the last ten seconds
		var user string
		var units, perSecond float64
		var requests, throttled int
		err := s.Query("SELECT user, request_units, requests, throttled, ru_per_second FROM ilion.user_usage").
			Scan(&user, &units, &requests, &throttled, &perSecond)
		if err != nil || user != host {
			t.Fatal(user, err)
		}
		return units >= float64(49*written) && requests > written && throttled >= refused && perSecond > 0
	})
}
