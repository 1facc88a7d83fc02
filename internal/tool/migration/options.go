// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration/outline"
)

// Options describe a migration. Run wants Source, Target and Checkpoint.
type Options struct {
	Source, Target bulk.Client
	Select         outline.Selection
	// SchemaOnly copies no rows, DataOnly makes nothing: the tables have to be there.
	SchemaOnly, DataOnly bool
	// SkipRefused goes on without what the target refuses, but tables whose columns differ.
	SkipRefused bool
	// Roles copies roles and permissions, too.
	Roles bool
	// DryRun says what would be done, and does nothing.
	DryRun bool
	// RangeBytes is about how much a range of tokens has, 0 for 64 MiB.
	RangeBytes int64
	// Rate bounds the rows, and ByteRate the bytes, that are read of the source in a second; 0 does not.
	Rate, ByteRate int
	// Checkpoint and Errors are files. Restart ignores a checkpoint.
	Checkpoint, Errors string
	Restart            bool
	// MaxErrors is how many rows may be refused, -1 for any number.
	MaxErrors int64
	// Verify compares all rows when they are copied. VerifyOnly does nothing else; Repair makes what differs as it is
	// in the source then, whatever is newer here.
	Verify, VerifyOnly, Repair bool
	// ValuesOnly has a verification ignore when cells were written.
	ValuesOnly bool
	// Follow makes pass after pass, Pause after one another, until the context ends, or, with UntilEqual, until one
	// has found nothing to do.
	Follow, UntilEqual bool
	Pause              time.Duration
	// Progress shows how far a pass is; nil does not. Out is told what is done.
	Progress func() *bulk.Progress
	Out      io.Writer
}

const (
	defaultRangeBytes = 64 << 20
	// rangesMin and rangesMax bound the ranges of a table, rangesAll those of all.
	rangesMin, rangesMax, rangesAll = 16, 4096, 65536
	// listed is how many differences are listed.
	listed = 100
)
