// SPDX-License-Identifier: Apache-2.0

//go:build unix

package audit

import (
	"bytes"
	"io"
	"log/syslog"
)

// lines sends each line to syslog as a separate message.
type lines struct{ w *syslog.Writer }

func openSyslog() (io.WriteCloser, error) {
	w, err := syslog.New(syslog.LOG_AUTHPRIV|syslog.LOG_INFO, "ilion")
	return lines{w}, err
}

// Write writes complete lines.
func (l lines) Write(b []byte) (n int, err error) {
	for line := range bytes.Lines(b) {
		if _, err := l.w.Write(line); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}

// Close closes the connection.
func (l lines) Close() error { return l.w.Close() }
