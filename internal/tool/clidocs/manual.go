// SPDX-License-Identifier: Apache-2.0

package clidocs

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Manual writes the manual page of the program for section 1, in roff with the man(7) macros.
func Manual(w io.Writer, root *kong.Node) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(root.Name), root.Name,
		roff(strings.TrimSuffix(root.Help, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n.RI [ options ]\n.SH COMMANDS\n", root.Name)
	for _, c := range commandsOf(root)[1:] {
		if len(c.next) > 0 {
			continue
		}
		fmt.Fprintf(&b, ".SS %s %s\n%s\n", root.Name, roff(c.words), roff(c.help))
		for _, f := range c.flags {
			head := "\\-\\-" + roff(f.Name)
			if f.Short != 0 {
				head = fmt.Sprintf("\\-%c, %s", f.Short, head)
			}
			if !f.IsBool() {
				head += "=" + roff(f.FormatPlaceHolder())
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", head, roff(f.Help))
			for _, name := range f.Envs {
				fmt.Fprintf(&b, "Environment variable: %s.\n", name)
			}
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for a mistake in the command line.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// roff escapes a text so that it contains no roff requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
