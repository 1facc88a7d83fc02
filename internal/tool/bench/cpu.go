// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// clockTick is USER_HZ, which is the unit of /proc/PID/stat. It is 10 ms on every Linux platform that Go supports.
const clockTick = 10_000

// cpuTime returns the sum of the user and system times of local processes, in microseconds.
func cpuTime(pids []int) (micros int64, err error) {
	for _, pid := range pids {
		n, err := processTime(pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		micros += n
	}
	return micros, nil
}

func processTime(pid int) (micros int64, err error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// The second field is the process name in parentheses and may contain spaces. utime and stime are fields 14 and
	// 15.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected format of %s", name)
	}
	utime, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	stime, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("unexpected format of %s", name)
	}
	return (utime + stime) * clockTick, nil
}
