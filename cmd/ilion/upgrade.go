// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
)

type upgradeCommand struct {
	door
	Yes bool `name:"yes" help:"Do not ask for confirmation"`
}

// Run raises the feature level of the cluster, after a question: there is no way back.
func (c *upgradeCommand) Run(out io.Writer) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{"no node can go back to the build before: say --yes where there is no terminal to ask at"}
		}
		if err := agreed(os.Stdin, out,
			"The cluster uses what its build brings, and no node can go back to the build before."); err != nil {
			return err
		}
	}
	body, err := c.ask(http.MethodPost, "/upgrade")
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
