// SPDX-License-Identifier: Apache-2.0

package eventually

import (
	"flag"
	"runtime"
	"strconv"
)

// AtOnce sets the number of concurrent tests of a package per processor, unless -parallel is set. A test that waits
// for elections, disks, or clocks does not use a whole processor. Call AtOnce in TestMain.
func AtOnce(tests int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(tests * runtime.GOMAXPROCS(0))) // cannot fail, because the number is valid
	}
}
