// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"math"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are Ilion's options for the physical partitions of a table. The options set the maximum size of a partition,
// and determine whether small partitions are merged automatically.
const (
	storageCapProperty = "storage_cap_gb"
	mergesProperty     = "automatic_merges"
)

// These are the limits of storage_cap_gb.
const (
	gigabyte      = 1e9
	storageCapMax = 1000
	// StorageCapMin is the minimum cap of a physical partition, in bytes.
	StorageCapMin = 1e6
)

// setStorageCap parses storage_cap_gb, which may be fractional. The value 0 removes the cap.
func (o *TableOptions) setStorageCap(p *Property) error {
	gb, err := p.float()
	if err != nil {
		return err
	}
	if gb != 0 && (math.IsNaN(gb) || gb*gigabyte < StorageCapMin || gb > storageCapMax) {
		return dberr.Configf("%s must be %s to %d, or 0 to use the configuration of the nodes, not %s", p.Name,
			FormatDouble(StorageCapMin/gigabyte), storageCapMax, p.Value)
	}
	o.StorageCapGB = gb
	return nil
}

// StorageCap returns the maximum size of a physical partition on disk in bytes. It returns 0 if the table does not
// define a maximum.
func (o *TableOptions) StorageCap() uint64 { return uint64(math.Round(o.StorageCapGB * gigabyte)) }

// StorageCapText returns the value of storage_cap_gb, or an empty string if it is not set.
func (o *TableOptions) StorageCapText() string {
	if o.StorageCapGB == 0 {
		return ""
	}
	return strconv.FormatFloat(o.StorageCapGB, 'f', -1, 64)
}

// setMerges parses automatic_merges, which is true or false.
func (o *TableOptions) setMerges(p *Property) error {
	text, err := p.simple()
	if err != nil {
		return err
	}
	switch strings.ToLower(text) {
	case "true":
		o.MergesOff = false
	case "false":
		o.MergesOff = true
	default:
		return dberr.Configf("%s must be true or false, not %s", p.Name, text)
	}
	return nil
}
