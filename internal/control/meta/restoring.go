// SPDX-License-Identifier: Apache-2.0

package meta

import "strings"

// restorePrefix begins the names of the settings of tables that are being restored.
const restorePrefix = "restore/"

// RestoreSetting returns the name of the setting that holds the ID of the backup from which a table is being restored.
// The setting is made before the table and removed when the table is complete, dropped, or created by anything else.
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
