// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"
	"strings"
)

// quietLogger discards log messages and panics if the library panics. A panic of the library means that the library's
// state is inconsistent.
type quietLogger struct{}

func (quietLogger) Debug(...any)                   {}
func (quietLogger) Debugf(string, ...any)          {}
func (quietLogger) Info(...any)                    {}
func (quietLogger) Infof(string, ...any)           {}
func (quietLogger) Warning(...any)                 {}
func (quietLogger) Warningf(string, ...any)        {}
func (quietLogger) Error(...any)                   {}
func (quietLogger) Errorf(string, ...any)          {}
func (quietLogger) Fatal(v ...any)                 { panic(inconsistent(fmt.Sprint(v...))) }
func (quietLogger) Fatalf(format string, v ...any) { panic(inconsistent(fmt.Sprintf(format, v...))) }
func (quietLogger) Panic(v ...any)                 { panic(inconsistent(fmt.Sprint(v...))) }
func (quietLogger) Panicf(format string, v ...any) { panic(inconsistent(fmt.Sprintf(format, v...))) }

// inconsistent is the text of a panic in the library.
type inconsistent string

func (i inconsistent) Error() string {
	return "this node's log lacks entries that it has acknowledged: the data directory is a copy, was restored to an " +
		"earlier state, or lost writes that the disk had confirmed; take the node out of the cluster and start it on an " +
		"empty directory (raft: " + string(i) + ")"
}

// Unwrap returns ErrLostLog if the leader expects entries that are missing from this replica's log.
func (i inconsistent) Unwrap() error {
	if strings.HasPrefix(string(i), "tocommit(") {
		return ErrLostLog
	}
	return nil
}
