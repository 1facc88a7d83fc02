// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain allows scripts to run this program under the name ilion.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ilion": main})
}

// TestScripts runs the scripts in testdata/script. The scripts check the output and the exit codes of commands.
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
