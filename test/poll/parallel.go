// SPDX-License-Identifier: Apache-2.0

package poll

import (
	"flag"
	"runtime"
	"strconv"
)

// AtOnce has each processor run so many parallel tests of a package at a time, unless -parallel says otherwise: tests
// that wait for elections, disks and clocks leave it idle. It is for TestMain.
func AtOnce(tests int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(tests * runtime.GOMAXPROCS(0))) // a number is one
	}
}
