// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	barWidth  = 30
)

// Progress shows the progress of an operation. On a terminal, it shows a progress bar. Otherwise, it writes a line
// every five seconds.
type Progress struct {
	// Out is the destination, or nil. Terminal is set if Out is a terminal.
	Out      io.Writer
	Terminal bool
	// Total is the final value of Done, or 0 if it is unknown. The unit can be, for example, bytes or token ranges.
	Total int64

	Rows, Rejected, Done atomic.Int64
	again                func() int64
	begin                time.Time
	stop, stopped        chan struct{}
}

// Start shows the progress until Stop is called.
func (p *Progress) Start() {
	p.begin, p.stop, p.stopped = time.Now(), make(chan struct{}), make(chan struct{})
	if p.Out == nil {
		close(p.stopped)
		return
	}
	every := lineEvery
	if p.Terminal {
		every = barEvery
	}
	go func() {
		defer close(p.stopped)
		t := time.NewTicker(every)
		defer t.Stop()
		for last := int64(0); ; {
			select {
			case <-p.stop:
				if p.Terminal {
					fmt.Fprint(p.Out, "\r\x1b[K")
				}
				return
			case <-t.C:
				rows := p.Rows.Load()
				p.show(float64(rows-last) / every.Seconds())
				last = rows
			}
		}
	}()
}

// Stop stops the display and returns the elapsed time.
func (p *Progress) Stop() time.Duration {
	close(p.stop)
	<-p.stopped
	return time.Since(p.begin)
}

func (p *Progress) show(rate float64) {
	line := p.line(rate, time.Since(p.begin))
	if p.Terminal {
		line = "\r" + line + "\x1b[K"
	} else {
		line += "\n"
	}
	_, _ = io.WriteString(p.Out, line) // a failed display is not an error
}

// line returns the line that is displayed. rate is the number of rows per second since the last line.
func (p *Progress) line(rate float64, took time.Duration) string {
	var b strings.Builder
	left := time.Duration(-1)
	done := p.Done.Load()
	if p.Total > 0 {
		part := min(1, float64(done)/float64(p.Total))
		if p.Terminal {
			full := int(part * barWidth)
			b.WriteString("[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "] ")
		}
		fmt.Fprintf(&b, "%5.1f %%  ", part*100)
		if part > 0 && part < 1 {
			left = time.Duration(float64(took) * (1 - part) / part).Round(time.Second)
		}
	}
	fmt.Fprintf(&b, "%d rows  %.0f rows/s", p.Rows.Load(), rate)
	if n := p.Rejected.Load(); n > 0 {
		fmt.Fprintf(&b, "  %d rejected", n)
	}
	if left >= 0 {
		fmt.Fprintf(&b, "  %s left", left)
	}
	if p.again != nil {
		if n := p.again(); n > 0 {
			fmt.Fprintf(&b, "  %d retried", n)
		}
	}
	return b.String()
}
