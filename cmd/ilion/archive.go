// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/tool/backup"
)

type backupArchiveCommand struct {
	door
	transfer
	place
	To        string        `name:"to" required:"" env:"ILION_BACKUP" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
	Also      []string      `name:"also" placeholder:"HOST:PORT" help:"Further nodes to use if the first does not respond"`
	Every     time.Duration `name:"every" default:"1s" placeholder:"TIME" help:"Interval between restore points (default ${default})"`
	BaseEvery time.Duration `name:"base-every" default:"24h" placeholder:"TIME" help:"Interval between full backups (default ${default})"`
	Keep      time.Duration `name:"keep" default:"168h" placeholder:"TIME" help:"Retention period of restore points; 0 keeps them indefinitely (default ${default})"`
}

func (c *backupArchiveCommand) check() error {
	switch {
	case c.Every < 100*time.Millisecond || c.Every > 20*time.Second:
		return &usageError{"--every is a time from 100ms to 20s"}
	case c.BaseEvery < time.Minute:
		return &usageError{"--base-every is a time from 1m on"}
	case c.Keep != 0 && c.Keep < time.Minute:
		return &usageError{"--keep is a time from 1m on, or 0"}
	}
	return c.transfer.check()
}

// Run archives until it is interrupted.
func (c *backupArchiveCommand) Run(out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.place.open(ctx, c.To, true)
	if err != nil {
		return err
	}
	nodes := &anyNode{nodes: []*orders{{door: &c.door}}}
	for _, address := range c.Also {
		other := c.door
		other.HTTP, other.Data = address, ""
		nodes.nodes = append(nodes.nodes, &orders{door: &other})
	}
	shown := &followLine{out: out, terminal: isTerminal(os.Stderr) && !c.Quiet}
	f := &backup.Follower{Door: nodes, Target: target, Every: c.Every, BaseEvery: c.BaseEvery, Keep: c.Keep,
		Parallel: c.Parallel, Rate: int64(c.RateMB) * 1e6, Now: time.Now, Say: shown.say, Told: shown.show}
	err = f.Run(ctx)
	shown.end()
	return err
}

// anyNode asks the node that has answered last, and another one if it does not.
type anyNode struct {
	nodes []*orders
	mu    sync.Mutex
	at    int
}

// Order implements backup.Door.
func (a *anyNode) Order(ctx context.Context, what string, body []byte) ([]byte, error) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	answer, err := a.nodes[at].Order(ctx, what, body)
	if err != nil && len(a.nodes) > 1 && errors.As(err, new(*noAnswer)) {
		a.mu.Lock()
		if a.at == at {
			a.at = (at + 1) % len(a.nodes)
		}
		a.mu.Unlock()
	}
	return answer, err
}

// followLine shows how far an archive is: on a terminal all the time, elsewhere once a minute.
type followLine struct {
	out      io.Writer
	terminal bool
	mu       sync.Mutex
	shown    time.Time
	open     bool
}

const followTold = time.Minute

// say tells something, with the time.
func (l *followLine) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintf(l.out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

func (l *followLine) show(p backup.Followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.terminal && time.Since(l.shown) < followTold || p.Stored.IsZero() {
		return
	}
	l.clear()
	text := fmt.Sprintf("archived up to %s, %s behind; %s stored; writers waited %s", p.Stored.Format(backup.TimeFormat),
		time.Since(p.Stored).Round(time.Second), sizeText(p.Bytes), p.Still.Round(100*time.Microsecond))
	if p.Bases > 0 {
		text += "; a base is being read"
	}
	l.shown = time.Now()
	if l.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
		l.open = true
		return
	}
	fmt.Fprintf(l.out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

func (l *followLine) clear() {
	if l.open {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		l.open = false
	}
}

func (l *followLine) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

// showLog says what can be restored of an archive.
func showLog(out io.Writer, log *backup.Log) error {
	for i, missing := range log.Missing {
		if missing && i > 0 {
			fmt.Fprintf(out, "archive: what was before %s is missing\n",
				log.Chains[i].First().Format(backup.TimeFormat))
		}
	}
	for _, r := range log.Ranges() {
		_, err := fmt.Fprintf(out, "archive: any second from %s to %s can be restored (%s)\n",
			r.From.Format(backup.TimeFormat), r.To.Format(backup.TimeFormat), r.To.Sub(r.From).Round(time.Second))
		if err != nil {
			return err
		}
	}
	if len(log.Chains) > 0 && len(log.Ranges()) == 0 {
		_, err := fmt.Fprintln(out, "archive: nothing can be restored yet: no base is complete")
		return err
	}
	return nil
}

type backupPruneCommand struct {
	place
	From      string        `arg:"" name:"from" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
	KeepLast  int           `name:"keep-last" placeholder:"N" help:"Number of most recent backups to keep; archive backups are not counted"`
	OlderThan time.Duration `name:"older-than" placeholder:"TIME" help:"Minimum age of the backups to delete, such as 720h"`
	Keep      time.Duration `name:"keep" placeholder:"TIME" help:"Retention period of restore points in the archive"`
	Dry       bool          `name:"dry-run" help:"List the files to delete without deleting them"`
}

// Run removes what is old.
func (c *backupPruneCommand) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	p := &backup.Pruner{Now: time.Now, KeepLast: c.KeepLast, OlderThan: c.OlderThan, Keep: c.Keep, Dry: c.Dry}
	if err := p.Check(); err != nil {
		return &usageError{err.Error()}
	}
	var err error
	if p.Target, err = c.place.open(ctx, c.From, false); err != nil {
		return err
	}
	if c.Dry {
		p.Told = func(name string) { fmt.Fprintln(out, name) }
	}
	if err := p.Prune(ctx); err != nil {
		return err
	}
	word := "removed"
	if c.Dry {
		word = "would be removed"
	}
	fmt.Fprintf(out, "%s and %s %s\n", counted(p.Backups, "backup"), counted(p.Removed-p.Backups, "other file"), word)
	if p.Busy {
		fmt.Fprintln(out, "a backup is being made, or was stopped: files of rows stay until one is complete")
	}
	return nil
}
