// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBroken means that the disk rejected a required write. The store then stops writing data, and the state on disk is
// unknown until the next Open.
var ErrBroken = errors.New("the store has stopped")

// broken permanently stops serving and never returns. Pebble must not receive the error, because it would end the
// process with a stack trace. The Observer notifies the owner, which must end the process. Callers block until then.
func (s *engine) broken(text string) {
	err := fmt.Errorf("%w: %s", ErrBroken, strings.TrimPrefix(text, "pebble: "))
	if s.failed.CompareAndSwap(nil, &err) {
		s.o.Observer.Failed(err)
	}
	select {}
}
