// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
)

const (
	// historyLines is the maximum number of lines in the history. The history file may contain twice as many lines.
	historyLines = liner.HistoryLimit
	// historyLineMax is the maximum length of a saved line, in bytes.
	historyLineMax = 64 << 10
)

// Terminal is an Editor on a terminal. Lines can be edited and completed. The history is kept across sessions.
type Terminal struct {
	state   *liner.State
	history string
}

// NewTerminal takes control of the terminal. complete has the semantics of Shell.Complete. history is the path of the
// history file, or "". NewTerminal ignores unreadable lines of the history. Close restores the terminal.
func NewTerminal(history string, complete func(line string, pos int) (string, []string, string)) *Terminal {
	t := &Terminal{state: liner.NewLiner(), history: history}
	t.state.SetCtrlCAborts(true)
	t.state.SetTabCompletionStyle(liner.TabPrints)
	t.state.SetWordCompleter(complete)
	lines := readHistory(history)
	if len(lines) > 2*historyLines {
		lines = lines[len(lines)-historyLines:]
		rewriteHistory(history, lines)
	}
	for _, line := range lines {
		t.state.AppendHistory(line)
	}
	return t
}

// HistoryFile returns the path of the history file, which is below $XDG_STATE_HOME or ~/.local/state. If the user has
// no home directory, HistoryFile returns "".
func HistoryFile() string {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "ilion", "shell_history")
}

// readHistory reads the lines of a history. It skips lines that are too long.
func readHistory(name string) (lines []string) {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close() // the file was opened only for reading
	in := bufio.NewScanner(f)
	in.Buffer(nil, 2*historyLineMax)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	return lines
}

// rewriteHistory shortens a history. If the rewrite fails, the file does not change.
func rewriteHistory(name string, lines []string) {
	f, err := os.CreateTemp(filepath.Dir(name), "shell_history")
	if err != nil {
		return
	}
	_, err = io.WriteString(f, strings.Join(lines, "\n")+"\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// Line implements Editor.
func (t *Terminal) Line(prompt string) (string, error) {
	line, err := t.state.Prompt(prompt)
	return line, terminalError(err)
}

// Secret implements Editor.
func (t *Terminal) Secret(prompt string) (string, error) {
	line, err := t.state.PasswordPrompt(prompt)
	return line, terminalError(err)
}

func terminalError(err error) error {
	if errors.Is(err, liner.ErrPromptAborted) {
		return ErrInterrupted
	}
	return err
}

// Remember implements Editor. If the history cannot be written, Remember ignores the error.
func (t *Terminal) Remember(line string) {
	if len(line) > historyLineMax {
		return
	}
	t.state.AppendHistory(line)
	if t.history == "" || os.MkdirAll(filepath.Dir(t.history), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(t.history, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_, _ = io.WriteString(f, line+"\n")
	_ = f.Close()
}

// Close restores the terminal.
func (t *Terminal) Close() error { return t.state.Close() }
