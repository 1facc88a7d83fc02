// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

type logged struct {
	text  strings.Builder
	lines int
	full  bool
}

// String returns the lines with their line ends.
func (l *logged) String() string { return l.text.String() }

// add adds a line. It truncates or discards the line if the log exceeds a limit.
func (l *logged) add(line string, b *Bounds) {
	if l.full {
		return
	}
	if l.lines++; l.lines > b.LogLines || l.text.Len()+len(line)+1 > b.LogBytes {
		l.full = true
		line = "(the log is full)"
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
}

// consoleLog implements console.log. The first argument may contain the directives %s, %d, %i, %f, %o, %O, %j, %c, and
// %% for the following arguments.
func (r *realm) consoleLog(c goja.FunctionCall) goja.Value {
	run := r.run
	if !run.call.Log || run.log.full || len(c.Arguments) == 0 {
		return goja.Undefined()
	}
	args := c.Arguments
	var line strings.Builder
	if goja.IsString(args[0]) {
		args = args[1:]
		r.format(&line, c.Arguments[0].String(), &args)
	}
	for _, v := range args {
		if line.Len() > 0 {
			line.WriteByte(' ')
		}
		if line.Len() > run.engine.bounds.LogBytes {
			break
		}
		line.WriteString(r.shown(v))
	}
	run.log.add(line.String(), &run.engine.bounds)
	return goja.Undefined()
}

// format writes a text in which directives are replaced with arguments. It removes these arguments from args.
func (r *realm) format(line *strings.Builder, text string, args *[]goja.Value) {
	for line.Len() <= r.run.engine.bounds.LogBytes {
		i := strings.IndexByte(text, '%')
		if i < 0 || i+1 == len(text) {
			break
		}
		line.WriteString(text[:i])
		directive := text[i+1]
		text = text[i+2:]
		if directive == '%' || !strings.ContainsRune("sdifoOjc", rune(directive)) || len(*args) == 0 {
			line.WriteByte('%')
			if directive != '%' {
				line.WriteByte(directive)
			}
			continue
		}
		v := (*args)[0]
		*args = (*args)[1:]
		switch directive {
		case 'd', 'i':
			line.WriteString(strconv.FormatInt(v.ToInteger(), 10))
		case 'f':
			line.WriteString(strconv.FormatFloat(v.ToFloat(), 'g', -1, 64))
		case 'c': // a style, which a text log cannot represent
		default:
			line.WriteString(r.shown(v))
		}
	}
	line.WriteString(text)
}

// shown returns the log text of a value. For a string, it returns the string. For an object, it returns the JSON.
func (r *realm) shown(v goja.Value) string {
	if o, ok := v.(*goja.Object); ok && o.ClassName() != "Error" && o.ClassName() != "Function" {
		if text := r.json(v, r.run.engine.bounds.LogBytes, jsonDepthMax); text != nil {
			return string(text)
		}
	}
	return v.String()
}
