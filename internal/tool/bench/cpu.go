// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// cpuClock reads the CPU time of the server: from the process table if a pid was given, else from the server itself.
type cpuClock struct {
	admin *rawclient.Conn
	pid   int
}

// clockTick is USER_HZ, the unit of /proc/PID/stat: 10 ms on every Linux that Go supports.
const clockTick = 10_000

// read returns microseconds of user and system time; have is false if the server cannot be asked and no pid was given.
func (c *cpuClock) read() (micros int64, have bool, err error) {
	if c.pid == 0 {
		return c.admin.ServerCPU()
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		return 0, false, fmt.Errorf("CPU time of process %d: %w", c.pid, err)
	}
	// The second field is the name in parentheses and may hold blanks; utime and stime are fields 14 and 15.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, false, fmt.Errorf("CPU time of process %d: unexpected form of /proc/%d/stat", c.pid, c.pid)
	}
	utime, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	stime, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, false, fmt.Errorf("CPU time of process %d: unexpected form of /proc/%d/stat", c.pid, c.pid)
	}
	return (utime + stime) * clockTick, true, nil
}
