// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// TestSnapshotRetries checks that a snapshot for a mark is retried only within one second. A backup must wait longer.
// The error must state the number of attempts and the cause.
func TestSnapshotRetries(t *testing.T) {
	changed := errors.New("the schema was changed")
	for _, c := range []struct {
		name  string
		r     retries
		takes time.Duration // duration of an attempt
		fails int           // number of failed attempts before an attempt succeeds
		want  string
	}{
		{"a mark", markRetries, 50 * time.Millisecond, 0, ""},
		{"a mark during changes", markRetries, 50 * time.Millisecond, 5, ""},
		{"a mark during slow changes", markRetries, 400 * time.Millisecond, 2, ""},
		{"a mark without an end of changes", markRetries, 50 * time.Millisecond, 99,
			"8 attempts): the schema was changed"},
		{"a mark that takes its second", markRetries, time.Second, 99, "(1 attempt): the schema was changed"},
		{"a backup", backupRetries, time.Second, 9, ""},
		{"a backup without an end of changes", backupRetries, time.Second, 99, "10 attempts): the schema was changed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries, began := 0, time.Now()
			taken, err := c.r.take(t.Context(), func(context.Context) (*archive.Snapshot, error) {
				time.Sleep(c.takes)
				if tries++; tries <= c.fails {
					return nil, changed
				}
				return &archive.Snapshot{}, nil
			})
			switch {
			case c.want == "" && (err != nil || taken == nil || tries != c.fails+1):
				t.Errorf("%s: %v after %d attempts", c.name, err, tries)
			case c.want != "" && (!errors.Is(err, changed) || !strings.HasSuffix(err.Error(), c.want)):
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			if took := time.Since(began); c.r == markRetries && took > c.r.within+c.takes {
				t.Errorf("%s took %v", c.name, took)
			}
		})
	}
}
