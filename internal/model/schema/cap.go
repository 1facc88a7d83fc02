// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"math"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The options of Ilion's about the physical partitions of a table: how large one may get, and whether small ones are
// merged by themselves.
const (
	storageCapProperty = "storage_cap_gb"
	mergesProperty     = "automatic_merges"
)

// The bounds of storage_cap_gb, and a GB.
const (
	gigabyte      = 1e9
	storageCapMax = 1000
	// StorageCapMin is the least that a physical partition may have, in bytes.
	StorageCapMin = 1e6
)

// setStorageCap reads storage_cap_gb: a number, also a fractional one. 0 takes it back.
func (o *TableOptions) setStorageCap(p *Property) error {
	gb, err := p.float()
	if err != nil {
		return err
	}
	if gb != 0 && (math.IsNaN(gb) || gb*gigabyte < StorageCapMin || gb > storageCapMax) {
		return dberr.Configf("%s must be %s to %d, or 0 for what the nodes are configured with, not %s", p.Name,
			FormatDouble(StorageCapMin/gigabyte), storageCapMax, p.Value)
	}
	o.StorageCapGB = gb
	return nil
}

// StorageCap is how many bytes a physical partition may have on disk, 0 if the table does not say.
func (o *TableOptions) StorageCap() uint64 { return uint64(math.Round(o.StorageCapGB * gigabyte)) }

// StorageCapText is the value of storage_cap_gb, empty if it is not set.
func (o *TableOptions) StorageCapText() string {
	if o.StorageCapGB == 0 {
		return ""
	}
	return strconv.FormatFloat(o.StorageCapGB, 'f', -1, 64)
}

// setMerges reads automatic_merges: true or false.
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
