// SPDX-License-Identifier: Apache-2.0

// Package sched is the seam between the product and the machine's clock and scheduler: how code tells time, starts
// goroutines and waits. A nil *Scheduler is the real thing: package time, go statements and channels, at the price of
// one comparison. A driven one (Driven) hands every such question to a simulator, which runs one goroutine at a time
// and knows which.
//
// What replaces what, where s is the *Scheduler in a package's options, nil outside simulations:
//
//	now, deadline := time.Now(), now.Add(d)   s.Now(), .Add(d)          for deadlines and durations only: never stored, never sent
//	time.Since(t), time.Until(t)              s.Since(t), s.Until(t)    of instants that came from s.Now
//	time.Now().UnixMicro() in a row or record s.Wall()                  the calendar: it may jump both ways
//	CLOCK_BOOTTIME                            s.Boot()                  runs on while the machine is suspended; leases
//	go f()                                    s.Go(f)
//	wg.Go(f); wg.Wait()                       g := sched.Group{Scheduler: s}; g.Go(f); g.Wait()
//	select { <-ch; <-ctx.Done() }             sched.Await(s, ctx, ch, 0)
//	the same, with a timer and an end         sched.Await(s, ctx, ch, d, closed)
//	ticker or timer in a loop, with a signal  s.Sleep(ctx, d, signal)
//	context.WithTimeout, WithDeadline         s.WithTimeout, s.WithDeadline
//	context.AfterFunc(ctx, f)                 s.AfterDone(ctx, f)
//	time.AfterFunc(d, f)                      s.AfterFunc(d, f)
//
// What a driven goroutine must obey, so that one thread and one seed make one history:
//
//   - (SD1) It waits through this package only. A bare channel receive, select, WaitGroup or time.Sleep stops the whole
//     simulation.
//   - (SD2) No mutex is held over a wait. What must be exclusive over a wait is a channel of capacity one, taken with
//     Await.
//   - (SD3) Callbacks that other goroutines call (completions, events) do not wait.
//   - (SD4) What the order of a map or of a select decides has no effect that others can see.
//
// When a simulated process ends, every wait in it returns ErrEnded, and a goroutine that waits on all the same is ended
// there.
//
// Start at Scheduler, then Await; Driver is the simulator's side.
package sched
