// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ilion-db/ilion/internal/replica/partition"
)

// ExplainDiskFailure explains the effect of a disk failure on the data directory.
func ExplainDiskFailure(data string, err error) error {
	switch {
	case data == "":
		return err
	case errors.Is(err, syscall.ENOSPC): // a full disk may affect any file first
		return fmt.Errorf("the disk of %s is full: nothing that was acknowledged is lost, the node can be started when there "+
			"is more space: %w", data, err)
	case errors.Is(err, partition.ErrStopped):
		return fmt.Errorf("data directory %s: %w", data, err)
	}
	return err
}
