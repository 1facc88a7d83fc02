// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package audit

import (
	"errors"
	"io"
)

func openSyslog() (io.WriteCloser, error) {
	return nil, errors.New("syslog is not supported on this system")
}
