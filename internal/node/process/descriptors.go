// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"log/slog"
)

// LogDescriptors returns a function that logs when clients use file descriptors that the store needs. It also logs when
// enough descriptors are available again.
func LogDescriptors(log *slog.Logger) func(low bool) {
	return func(low bool) {
		if low {
			log.LogAttrs(context.Background(), slog.LevelWarn, "no file descriptors are available: the store uses "+
				"its reserve, and new connections are rejected; raise ulimit -n, or lower limits.connections")
			return
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "file descriptors are available again")
	}
}
