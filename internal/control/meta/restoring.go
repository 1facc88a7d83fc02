// SPDX-License-Identifier: Apache-2.0

package meta

import "strings"

// restorePrefix is the name prefix of the settings of tables that are being restored.
const restorePrefix = "restore/"

// RestoreSetting returns the name of the setting for a table that is being restored. The setting contains the ID of the
// backup. It is created before the table. It is removed when the table is complete, dropped, or created by another
// request.
func RestoreSetting(keyspace, table string) string { return restorePrefix + keyspace + "." + table }

// Restoring returns the names of the settings of all tables that are being restored.
func (s *State) Restoring() (names map[string]bool) {
	for name := range s.Settings {
		if strings.HasPrefix(name, restorePrefix) {
			names = with(names, name, true, true)
		}
	}
	return names
}
