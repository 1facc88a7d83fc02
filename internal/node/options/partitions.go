// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/budget"
)

// Splits configures automatic splits.
type Splits struct {
	// StorageCap is the maximum size of a physical partition on disk. The table option storage_cap_gb has precedence.
	// A partition is split at 80 % of this size.
	StorageCap Bytes `yaml:"storage_cap"`
	// Units is the load, in request units per second, above which a partition is split. The value -1 disables splits
	// by load.
	Units int `yaml:"request_units_per_second"`
}

// These are the defaults and the limits of Splits.
const (
	storageCap    Bytes = 30e9
	storageCapMin Bytes = schema.StorageCapMin
	splitUnits          = budget.MaxPerSecond
)

// LoadLimit returns the load, in request units per second, above which a partition is split. It returns 0 if splits by
// load are disabled.
func (s *Splits) LoadLimit() float64 { return float64(max(s.Units, 0)) }

func (s *Splits) validate() error {
	switch {
	case s.StorageCap < storageCapMin:
		return fmt.Errorf("splits.storage_cap %d is too small: use %d or more", s.StorageCap, storageCapMin)
	case s.Units < -1:
		return fmt.Errorf("splits.request_units_per_second %d is out of range: use 1 or more, or off to disable splits by load",
			s.Units)
	}
	return nil
}

// Merges configures automatic merges.
type Merges struct {
	// Automatic enables merges. A nil value means true.
	Automatic *bool `yaml:"automatic"`
	// IdlePeriod is the time for which two adjacent partitions must stay far below the split limits before they merge.
	IdlePeriod time.Duration `yaml:"idle_period"`
}

// These are the default and the minimum of Merges.IdlePeriod.
const (
	idlePeriod    = 5 * time.Minute
	idlePeriodMin = 100 * time.Millisecond
)

// MergeAfter returns the time for which partitions must be idle before they are merged. It returns 0 if merges are
// disabled.
func (m *Merges) MergeAfter() time.Duration {
	if m.Automatic != nil && !*m.Automatic {
		return 0
	}
	return m.IdlePeriod
}

func (m *Merges) validate() error {
	if m.IdlePeriod < idlePeriodMin {
		return fmt.Errorf("merges.idle_period %v is too short: use %v or more", m.IdlePeriod, idlePeriodMin)
	}
	return nil
}
