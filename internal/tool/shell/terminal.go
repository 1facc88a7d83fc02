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
	// historyLines is how many lines of the past are known, and twice as many the file of them may hold.
	historyLines = liner.HistoryLimit
	// historyLineMax bounds a line that is remembered, in bytes.
	historyLineMax = 64 << 10
)

// Terminal is the Editor of a person at a terminal: lines can be edited, completed, and found again in later sessions.
type Terminal struct {
	state   *liner.State
	history string
}

// NewTerminal takes the terminal of the process. complete is as Shell.Complete; history is a file, "" for none. What
// cannot be read of it is not known, and that is all. Close gives the terminal back.
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

// HistoryFile is where lines are remembered: below $XDG_STATE_HOME, or ~/.local/state. "" if there is no home.
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

// readHistory reads the lines of a history that are not too long.
func readHistory(name string) (lines []string) {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close() // it was only read
	in := bufio.NewScanner(f)
	in.Buffer(nil, 2*historyLineMax)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	return lines
}

// rewriteHistory makes a history shorter; if that fails it stays as it is.
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

// Line is as Editor has it.
func (t *Terminal) Line(prompt string) (string, error) {
	line, err := t.state.Prompt(prompt)
	return line, terminalError(err)
}

// Secret is as Editor has it.
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

// Remember is as Editor has it. A history that cannot be written is not, as nothing depends on it.
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

// Close gives the terminal back as it was.
func (t *Terminal) Close() error { return t.state.Close() }
