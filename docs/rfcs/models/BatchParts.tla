----------------------------- MODULE BatchParts -----------------------------
(* The parts of one LOGGED batch over several partitions: who applies them,    *)
(* and when their dedupe records may be swept. RFC 0007, "Dedupe records".     *)
(*                                                                             *)
(* Senders are the coordinator and the replayers: each has read the record of  *)
(* the batch and may send any part at any time, also long after another sender *)
(* has removed the record (a process that was paused, a message that was       *)
(* late). A leader evaluates a part in two steps under the latch of its key:   *)
(* it looks for the dedupe record and asks for the record of the batch         *)
(* (Begin), then it applies (End). Leaders may change in between (Depose).     *)
(* Time is the age of the batch. Clocks differ by Skew.                        *)
EXTENDS Naturals, FiniteSets
CONSTANTS
  Parts, Senders,
  AskAt, KeptFor, Skew, MaxTime,
  SweepAsks,    \* rule: a dedupe record is swept only after the record of its batch was seen to be removed
  LeaderAsks,   \* rule: a part as old as AskAt is evaluated only if the record of its batch is still there
  AskUnderLatch,\* rule: the leader asks after it has looked for the dedupe record, under the same latch
  FinalRemoval  \* rule: a record that was removed never comes back (the deletion outlives every attempt to write it)
VARIABLES time, rec, ded, count, pending, asked, told
vars == <<time, rec, ded, count, pending, asked, told>>

Init == /\ time = 0 /\ rec = "there"
        /\ ded = [p \in Parts |-> FALSE] /\ count = [p \in Parts |-> 0]
        /\ pending = [p \in Parts |-> FALSE]
        /\ asked = [p \in Parts |-> FALSE]       \* an answer "it is there" that a leader holds without the latch
        /\ told = [s \in Senders |-> {}]

Tick == time < MaxTime /\ time' = time + 1 /\ UNCHANGED <<rec, ded, count, pending, asked, told>>

\* What a clock may show.
Clocks == {c \in 0..(MaxTime + Skew) : c + Skew >= time /\ c <= time + Skew}

\* Without AskUnderLatch the leader asks first and keeps the answer.
AskEarly(p) == /\ ~AskUnderLatch /\ rec = "there" /\ asked' = [asked EXCEPT ![p] = TRUE]
               /\ UNCHANGED <<time, rec, ded, count, pending, told>>

Tell(s, p) == told' = [told EXCEPT ![s] = @ \cup {p}]

\* A part arrives: what was applied is told; so is what has neither its dedupe record nor the record of the batch.
Begin(s, p, clock) ==
  /\ ~pending[p]
  /\ \/ ded[p] /\ Tell(s, p) /\ UNCHANGED pending
     \/ ~ded[p] /\ LeaderAsks /\ clock >= AskAt /\ AskUnderLatch /\ rec = "gone" /\ Tell(s, p) /\ UNCHANGED pending
     \/ /\ ~ded[p]
        /\ (LeaderAsks /\ clock >= AskAt) => IF AskUnderLatch THEN rec = "there" ELSE asked[p]
        /\ pending' = [pending EXCEPT ![p] = TRUE] /\ UNCHANGED told
  /\ UNCHANGED <<time, rec, ded, count, asked>>

End(s, p) == /\ pending[p] /\ pending' = [pending EXCEPT ![p] = FALSE]
             /\ count' = [count EXCEPT ![p] = @ + 1] /\ ded' = [ded EXCEPT ![p] = TRUE]
             /\ \/ Tell(s, p)
                \/ UNCHANGED told                \* the answer was lost
             /\ UNCHANGED <<time, rec, asked>>

Depose(p) == pending[p] /\ pending' = [pending EXCEPT ![p] = FALSE] /\ UNCHANGED <<time, rec, ded, count, asked, told>>

Remove(s) == /\ rec = "there" /\ told[s] = Parts /\ rec' = "gone"
             /\ UNCHANGED <<time, ded, count, pending, asked, told>>

Return == ~FinalRemoval /\ rec = "gone" /\ rec' = "there" /\ told' = [s \in Senders |-> {}]
          /\ UNCHANGED <<time, ded, count, pending, asked>>

Sweep(p, clock) == /\ ded[p] /\ clock >= KeptFor /\ (SweepAsks => rec = "gone")
                   /\ ded' = [ded EXCEPT ![p] = FALSE]
                   /\ UNCHANGED <<time, rec, count, pending, asked, told>>

Next == \/ Tick \/ Return
        \/ \E p \in Parts : AskEarly(p) \/ Depose(p)
        \/ \E p \in Parts, c \in Clocks : Sweep(p, c)
        \/ \E s \in Senders, p \in Parts : End(s, p) \/ \E c \in Clocks : Begin(s, p, c)
        \/ \E s \in Senders : Remove(s)
Spec == Init /\ [][Next]_vars

Bound == \A p \in Parts : count[p] <= 2
Once == \A p \in Parts : count[p] <= 1                       \* no part is applied twice
Whole == rec = "gone" => \A p \in Parts : count[p] >= 1      \* a batch whose record is removed is applied
Honest == \A s \in Senders : \A p \in told[s] : count[p] >= 1   \* a sender that hears "applied" may rely on it
=============================================================================
