// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// loaded returns the options that a configuration file sets.
func loaded(t *testing.T, text string) (Options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var o Options
	err := Load(path, &o)
	return o, err
}

// TestFormerNamesOfOptions checks that each former name sets the same option as the present name. Each former name
// must cause a warning.
func TestFormerNamesOfOptions(t *testing.T) {
	former, err := loaded(t, `data_center: north # the region
"rack": 'z1'
memory: {journal: 8MiB}
limits:
  wait: 30ms
  throttled_wait: 2s
merges: {quiet_for: 1m}
auth: {open_pages: [metrics]}
cluster:
  heal_after: 1m
  capacity_gb: 500
  balance_slack_mb: 128
  snapshot_mb_per_second: 32
rest: {sort_freely: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(former.Deprecations) != len(renamedOptions) {
		t.Errorf("%d warnings, want %d: %q", len(former.Deprecations), len(renamedOptions), former.Deprecations)
	}
	present, err := loaded(t, `region: north
zone: z1
memory: {change_buffer: 8MiB}
limits:
  queue_delay_target: 30ms
  throttle_timeout: 2s
merges: {idle_period: 1m}
auth: {anonymous_endpoints: [metrics]}
cluster:
  rebuild_delay: 1m
  capacity: 500GiB
  balance_threshold: 128MiB
  snapshot_rate: 32MB
rest: {allow_unindexed_order_by: true}
`)
	if err != nil || present.Deprecations != nil {
		t.Fatal(err, present.Deprecations)
	}
	former.Deprecations = nil
	if !reflect.DeepEqual(former, present) {
		t.Errorf("the former names set %+v, the present names %+v", former, present)
	}
	if present.Region != "north" || present.Cluster.SnapshotRate != 32e6 ||
		present.Limits.ThrottleTimeout != 2*time.Second {
		t.Errorf("%+v", present)
	}
}

// TestFormerNamesKeepLines checks that errors name the line in the operator's file. Setting an option by both names
// must be an error.
func TestFormerNamesKeepLines(t *testing.T) {
	_, err := loaded(t, "rack: a\ncluster:\n  heal_after: 1m\n  nonsense: 1\n")
	if err == nil || !strings.Contains(err.Error(), "line 4") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("unknown option: %v", err)
	}
	_, err = loaded(t, "zone: a\nrack: b\n")
	if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "Remove rack") {
		t.Errorf("both names: %v", err)
	}
}

// TestOff checks that off disables each option that can be disabled.
func TestOff(t *testing.T) {
	o, err := loaded(t, `limits: {queue_delay_target: off, throttle_timeout: "off"}
slow_query_log_timeout: off
splits: {request_units_per_second: off}
storage: {min_free_disk_percent: off}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(o.Limits.QueueDelayTarget < 0, o.Limits.ThrottleTimeout, *o.SlowQueryLogTimeout, o.Splits.Units,
		o.Storage.MinFreeDisk)
	if want := "true 0s 0s -1 -1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
