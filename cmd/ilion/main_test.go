// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this program under the name ilion.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ilion": main})
}

// TestScripts checks the output and the exit codes of the command line; see testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ILION_START_REST", "off") // only one process per machine can use the default address
			return nil
		},
	})
}
