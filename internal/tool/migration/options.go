// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration/schemadiff"
)

// Options configures a migration. Run requires Source, Target, and Checkpoint.
type Options struct {
	Source, Target bulk.Client
	Select         schemadiff.Selection
	// SchemaOnly copies no rows. DataOnly creates no schema objects. The tables must therefore exist.
	SchemaOnly, DataOnly bool
	// SkipRefused continues without the objects that the target rejects. It does not skip tables whose columns differ.
	SkipRefused bool
	// Roles also copies roles and permissions.
	Roles bool
	// DryRun reports the plan but does not execute it.
	DryRun bool
	// RangeBytes is the approximate size of a token range. The value 0 means 64 MiB.
	RangeBytes int64
	// Rate and ByteRate limit the rows and the bytes that are read from the source per second. The value 0 means
	// unlimited.
	Rate, ByteRate int
	// Checkpoint and Errors are the paths of files. Restart ignores an existing checkpoint.
	Checkpoint, Errors string
	Restart            bool
	// MaxErrors is the maximum number of rejected rows. The value -1 means unlimited.
	MaxErrors int64
	// Verify compares all rows after they have been copied. VerifyOnly compares rows but copies no rows. Repair makes
	// rows that differ equal to the source, even if the rows are newer.
	Verify, VerifyOnly, Repair bool
	// ValuesOnly ignores timestamps in a verification.
	ValuesOnly bool
	// Follow repeats passes until the context ends. It pauses for Pause between two passes. If UntilEqual is set, it
	// stops when a pass finds no differences.
	Follow, UntilEqual bool
	Pause              time.Duration
	// Progress returns a progress display for a pass. If Progress is nil, no progress is displayed. Out receives
	// messages.
	Progress func() *bulk.Progress
	Out      io.Writer
}

const (
	defaultRangeBytes = 64 << 20
	// rangesMin and rangesMax limit the number of ranges per table. rangesAll limits the total number of ranges.
	rangesMin, rangesMax, rangesAll = 16, 4096, 65536
	// listed is the maximum number of differences that are listed.
	listed = 100
)
