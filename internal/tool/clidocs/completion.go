// SPDX-License-Identifier: Apache-2.0

package clidocs

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells lists the shells that Completion supports.
const Shells = "bash,zsh,fish"

// Completion writes a shell script that completes commands and options of the program.
func Completion(w io.Writer, root *kong.Node, shell string) error {
	list := commandsOf(root)
	var text string
	switch shell {
	case "bash":
		text = bash(root.Name, list)
	case "zsh":
		text = fmt.Sprintf("#compdef %s\nautoload -U +X bashcompinit && bashcompinit\n%s", root.Name, bash(root.Name, list))
	case "fish":
		text = fish(root.Name, list)
	default:
		return fmt.Errorf("unsupported shell %q: use one of %s", shell, Shells)
	}
	_, err := io.WriteString(w, text)
	return err
}

// bash returns a function that finds the command in the command line and offers the possible next words.
func bash(name string, list []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "_%s() {\n", name)
	b.WriteString("  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} at= i\n")
	b.WriteString("  COMPREPLY=()\n")
	b.WriteString("  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$at ${COMP_WORDS[i]}\" in\n")
	for _, c := range list[1:] {
		fmt.Fprintf(&b, "      %s) at=%s ;;\n", quote(spaced(c.words)), quote(spaced(c.words)))
	}
	b.WriteString("    esac\n  done\n")
	b.WriteString("  case \"$at $last\" in\n")
	for _, c := range list {
		for _, f := range c.flags {
			switch values := choices(f); {
			case values != nil:
				fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -W %s -- \"$word\")); return ;;\n",
					quote(spaced(c.words)+" --"+f.Name), quote(strings.Join(values, " ")))
			case takesFile(f):
				fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
					quote(spaced(c.words)+" --"+f.Name))
			case !f.IsBool():
				fmt.Fprintf(&b, "    %s) return ;;\n", quote(spaced(c.words)+" --"+f.Name))
			}
		}
	}
	b.WriteString("  esac\n  case \"$at\" in\n")
	for _, c := range list {
		var words []string
		for _, n := range c.next {
			words = append(words, n.Name)
		}
		for _, f := range c.flags {
			words = append(words, "--"+f.Name)
		}
		words = append(words, "--help")
		fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -W %s -- \"$word\")) ;;\n", quote(spaced(c.words)),
			quote(strings.Join(words, " ")))
	}
	fmt.Fprintf(&b, "  esac\n}\ncomplete -o filenames -F _%s %s\n", name, name)
	return b.String()
}

// spaced adds a space before each word, so that only whole words match.
func spaced(words string) string {
	if words == "" {
		return ""
	}
	return " " + words
}

// fish returns one line for each word and option that can follow each command.
func fish(name string, list []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "complete -c %s -f\n", name)
	for _, c := range list {
		condition := "__fish_use_subcommand"
		if c.words != "" {
			const seen = "__fish_seen_subcommand_from "
			condition = seen + strings.ReplaceAll(c.words, " ", "; and "+seen)
		}
		for _, n := range c.next {
			fmt.Fprintf(&b, "complete -c %s -n %s -a %s -d %s\n", name, quote(condition), n.Name, quote(n.Help))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s -d %s", name, quote(condition), f.Name, quote(f.Help))
			if f.Short != 0 {
				fmt.Fprintf(&b, " -s %c", f.Short)
			}
			switch values := choices(f); {
			case values != nil:
				fmt.Fprintf(&b, " -x -a %s", quote(strings.Join(values, " ")))
			case takesFile(f):
				b.WriteString(" -r -F")
			case !f.IsBool():
				b.WriteString(" -x")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// quote quotes a text as a single shell word.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
