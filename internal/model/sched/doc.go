// SPDX-License-Identifier: Apache-2.0

// Package sched is the interface between the product and the machine's clock and scheduler. All code uses this package
// to read the time, start goroutines, and wait. A nil *Scheduler uses package time, go statements, and channels. The
// additional cost is one comparison. A driven scheduler (see Driven) delegates to a simulator, which selects one
// goroutine to run at a time.
//
// The following table lists the functions that replace functions of the standard library. s is the *Scheduler in a
// package's options, which is nil outside simulations.
//
//	now, deadline := time.Now(), now.Add(d)   s.Now(), .Add(d)          deadlines and durations only: never stored or sent
//	time.Since(t), time.Until(t)              s.Since(t), s.Until(t)    for times returned by s.Now
//	time.Now().UnixMicro() in a row or record s.Wall()                  calendar time: it may jump in both directions
//	CLOCK_BOOTTIME                            s.Boot()                  advances during suspension: used for leases
//	go f()                                    s.Go(f)
//	wg.Go(f); wg.Wait()                       g := sched.Group{Scheduler: s}; g.Go(f); g.Wait()
//	select { <-ch; <-ctx.Done() }             sched.Await(s, ctx, ch, 0)
//	the same, with a timer and an end         sched.Await(s, ctx, ch, d, closed)
//	ticker or timer in a loop, with a signal  s.Sleep(ctx, d, signal)
//	context.WithTimeout, WithDeadline         s.WithTimeout, s.WithDeadline
//	context.AfterFunc(ctx, f)                 s.AfterDone(ctx, f)
//	time.AfterFunc(d, f)                      s.AfterFunc(d, f)
//
// A driven goroutine must obey the following rules, because a seed must determine the whole execution:
//
//   - (SD1) It waits only through this package. A bare channel receive, select, WaitGroup, or time.Sleep blocks the
//     whole simulation.
//   - (SD2) It holds no mutex while it waits. To keep exclusive access while it waits, a goroutine uses a channel of
//     capacity one, which it acquires with Await.
//   - (SD3) Callbacks that other goroutines call (completions, events) do not wait.
//   - (SD4) The iteration order of a map and the choice of a select have no observable effect.
//
// When a simulated process ends, every wait in it returns ErrEnded. If a goroutine waits again, the goroutine is
// terminated.
//
// Start reading at Scheduler, and continue with Await. Driver is the simulator's side of the interface.
package sched
