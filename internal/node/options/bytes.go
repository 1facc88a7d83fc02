// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bytes is a size. In the configuration file, it is a number of bytes, or a number with a unit, such as 512KiB, 64MiB,
// or 30GB.
type Bytes int64

// UnmarshalYAML decodes a size.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseBytes(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*b = v
	return nil
}

// units maps the names of units to their sizes.
var units = map[string]int64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ParseBytes parses a size, which consists of digits and one of the units B, KiB, MiB, GiB, TiB, KB, MB, GB, or TB.
// Without a unit, the size is in bytes.
func ParseBytes(s string) (Bytes, error) {
	digits := strings.TrimRight(s, "BKMGTi ")
	v, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if err != nil || !ok || v < 0 || v > (1<<62)/unit || strconv.FormatInt(v, 10) != digits {
		return 0, fmt.Errorf("%q is not a size: use a number with a unit, such as 64MiB or 30GB", s)
	}
	return Bytes(v * unit), nil
}
