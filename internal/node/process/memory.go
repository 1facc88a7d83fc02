// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
)

// MachineMemory returns the memory that is available to the process. The result is the memory of the machine, or the
// limit of the container if it is lower.
func MachineMemory() int64 {
	total := int64(4 << 30)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			total = kib << 10
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		var limit int64
		if _, err := fmt.Sscanf(string(b), "%d", &limit); err == nil && limit > 0 && limit < total {
			total = limit
		}
	}
	return total
}
