// SPDX-License-Identifier: Apache-2.0

// Package clidocs generates shell completion scripts and the manual page from the command tree of a program. Both
// therefore contain exactly the options that the program has.
package clidocs

import (
	"sort"
	"strings"

	"github.com/alecthomas/kong"
)

// command is a command of the tree. words contains the words of the command without the name of the program.
type command struct {
	words string
	help  string
	flags []*kong.Flag
	// next contains the possible next words.
	next []*kong.Node
}

// commandsOf lists the program and all visible commands, parents first.
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

// flagsOf returns the options of a command and of its parents, sorted by name. It omits help.
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

// choices returns the possible values of an option, or nil if any value is possible.
func choices(f *kong.Flag) []string {
	switch {
	case f.Enum != "":
		return f.EnumSlice()
	case strings.Contains(f.PlaceHolder, "|"):
		return strings.Split(f.PlaceHolder, "|")
	}
	return nil
}
