// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBroken means that the disk rejected a required write. After that, the store writes no more data. The state on disk
// is unknown until the next Open.
var ErrBroken = errors.New("the store has stopped")

// broken permanently stops serving and never returns. Pebble must not see the error, because it would end the process
// with a stack trace. In some places, Pebble ends the process through a fatal error that cannot be recovered. Callers
// block until the owner, which the Observer notifies, ends the process.
func (s *engine) broken(text string) {
	err := fmt.Errorf("%w: %s", ErrBroken, strings.TrimPrefix(text, "pebble: "))
	if s.failed.CompareAndSwap(nil, &err) {
		s.o.Observer.Failed(err)
	}
	select {}
}
