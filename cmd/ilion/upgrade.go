// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
)

type upgradeCommand struct {
	adminClient
	Yes bool `name:"yes" help:"Do not ask for confirmation"`
}

// Run raises the feature level of the cluster. It first asks for confirmation, because an upgrade is irreversible.
func (c *upgradeCommand) Run(out io.Writer) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{noTerminal}
		}
		if err := confirm(os.Stdin, out,
			"The cluster will use new features. Its nodes cannot return to the previous version."); err != nil {
			return err
		}
	}
	body, err := c.request(http.MethodPost, "/upgrade")
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
