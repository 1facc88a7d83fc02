// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// TestUsers checks the counts of each user, per second and in total, with the highest load first. The test also checks
// the maximum number of users, and that users without connections are removed after an hour.
func TestUsers(t *testing.T) {
	var u Users
	app, batch := u.Connect("app"), u.Connect("batch")
	u.Tick(0)
	for s := 1; s <= 30; s++ {
		app.Add(10, 0, 50*ru.Unit)
		if s > 20 {
			batch.Add(100, 4, 500*ru.Unit)
		}
		u.Tick(time.Duration(s) * time.Second)
		u.Tick(time.Duration(s)*time.Second + time.Millisecond)
	}
	want := []User{{"batch", 5000, 1000, 40, 500, 100, 4}, {"app", 1500, 300, 0, 50, 10, 0}}
	if got := u.List(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := MergeUsers(want, want[1:]); got[1].Units != 3000 || got[1].PerSecond != 100 || got[0] != want[0] {
		t.Errorf("two nodes together: %v", got)
	}
	for i := range 2 * usersMax {
		u.Disconnect(u.Connect(fmt.Sprint(i)))
	}
	if n := len(u.of); n != usersMax+1 || u.of[OtherUsers] == nil {
		t.Errorf("got %d distinct users", n)
	}
	if got := u.List(); len(got) != UsersMax {
		t.Errorf("got %d reported users", len(got))
	}
	u.Disconnect(batch)
	for s := 31; s < 31+3602; s++ {
		u.Tick(time.Duration(s) * time.Second)
	}
	if got := u.List(); len(got) != 1 || got[0].Name != "app" || got[0].PerSecond != 0 {
		t.Errorf("after an hour: %v", got)
	}
}
