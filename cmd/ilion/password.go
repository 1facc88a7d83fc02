// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

type hashPasswordCommand struct{}

// Run reads one line and prints its bcrypt hash. The bcrypt algorithm uses at most 72 bytes, so Run rejects longer
// passwords.
func (hashPasswordCommand) Run(out io.Writer) error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return &usageError{"the password is empty. Write it to standard input, as in: printf secret | ilion hash-password"}
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(line), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("cannot hash the password: %w", err)
	}
	_, err = fmt.Fprintln(out, string(hash))
	return err
}
