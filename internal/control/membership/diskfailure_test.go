// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// TestFullDisk checks that a full disk stops a node with the same error text, regardless of the store that encounters
// the error first.
func TestFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/data/raft/000007.log", Err: syscall.ENOSPC}
	for _, err := range []error{full, fmt.Errorf("%w: %w", raftlog.ErrStopped, full),
		fmt.Errorf("%w: %w", partition.ErrStopped, full)} {
		got := ExplainDiskFailure("/data", err).Error()
		if !strings.HasPrefix(got, "the disk of /data is full: nothing that was acknowledged is lost") {
			t.Errorf("%v: %s", err, got)
		}
	}
	got := ExplainDiskFailure("/data", partition.ErrStopped).Error()
	if !strings.HasPrefix(got, "data directory /data: ") {
		t.Errorf("another failure: %s", got)
	}
}
