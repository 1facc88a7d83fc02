// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBroken says that the disk did not take what had to be written. Nothing is written any more: what is on it now is
// only known after the next Open.
var ErrBroken = errors.New("the store cannot go on")

// broken ends serving for good and never returns: Pebble must not see the error, since it would end the process with a
// stack trace, in places by a fatal error that cannot be recovered from. Its callers wait until the owner, who is told
// by Events.Fatal, ends the process.
func (s *engine) broken(text string) {
	err := fmt.Errorf("%w: %s", ErrBroken, strings.TrimPrefix(text, "pebble: "))
	if s.o.Events.Fatal == nil {
		panic(err)
	}
	if s.failed.CompareAndSwap(nil, &err) {
		s.o.Events.Fatal(err)
	}
	select {}
}
