// SPDX-License-Identifier: Apache-2.0

// Package handbook writes what systems want to know of a program's commands: completion scripts of shells, and the page
// of the manual. All of it comes from the command tree, so it cannot tell of an option that is not there.
package handbook

import (
	"sort"
	"strings"

	"github.com/alecthomas/kong"
)

// command is one command of the tree: its words, without the name of the program.
type command struct {
	words string
	help  string
	flags []*kong.Flag
	// next are the words that can follow.
	next []*kong.Node
}

// commandsOf lists the program itself and all commands that are shown, parents first.
func commandsOf(root *kong.Node) []command {
	var out []command
	var walk func(n *kong.Node, words string)
	walk = func(n *kong.Node, words string) {
		c := command{words: words, help: n.Help, flags: flagsOf(n)}
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				c.next = append(c.next, child)
			}
		}
		out = append(out, c)
		for _, child := range c.next {
			walk(child, strings.TrimSpace(words+" "+child.Name))
		}
	}
	walk(root, "")
	return out
}

// flagsOf are the options of a command and of those above it, by name, without help.
func flagsOf(n *kong.Node) []*kong.Flag {
	var out []*kong.Flag
	for ; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if !f.Hidden && f.Name != "help" {
				out = append(out, f)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// takesFile reports whether the value of an option is the name of a file or directory.
func takesFile(f *kong.Flag) bool {
	return strings.Contains(f.PlaceHolder, "FILE") || strings.Contains(f.PlaceHolder, "DIR")
}

// choices are the values that an option can have, nil if they are not a fixed few.
func choices(f *kong.Flag) []string {
	switch {
	case f.Enum != "":
		return f.EnumSlice()
	case strings.Contains(f.PlaceHolder, "|"):
		return strings.Split(f.PlaceHolder, "|")
	}
	return nil
}
