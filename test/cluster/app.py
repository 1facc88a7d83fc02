# SPDX-License-Identifier: Apache-2.0
"""Does the same as app_test.go, with the Python driver: app.py HOST,HOST.. PORT FIRST_KEY [--tolerate]

Makes requests until its standard input ends, then reads all its data again. Each second it prints the number of
requests as JSON. Every result is known in advance. At a wrong result, or at an error without --tolerate, it exits with
a nonzero code and prints the reason on stderr.
"""
import faulthandler
import json
import random
import sys
import threading
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import DCAwareRoundRobinPolicy, FallthroughRetryPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, BatchType

USERS = 4
ITEMS = 100  # number of rows that a user has at a time
BLOBS = 20  # number of rows of the growing table that a user overwrites repeatedly
END = 180  # seconds after the end of the input until the stacks of all threads are printed on stderr
STALENESS = 1.0  # seconds: the server's limit for reads at ONE plus an allowance for a busy machine


class Unanswered(Exception):
    """A request failed with an unknown outcome."""


class Item:
    def __init__(self, key):
        self.key, self.value, self.tag, self.old_tag, self.acked = key, 0, None, None, 0.0


class App:
    def __init__(self, hosts, port, tolerate):
        profile = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM, request_timeout=20,
                                   load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")))
        self.cluster = Cluster(hosts, port=port, protocol_version=4,
                               execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = s = self.cluster.connect()
        self.tolerate = tolerate
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.requests = self.errors = 0
        self.wrong = None
        prepare = s.prepare
        self.insert = prepare("INSERT INTO app.items (k, v, tag) VALUES (?, ?, ?)")
        self.select = prepare("SELECT v FROM app.items WHERE k = ?")
        self.select_one = prepare("SELECT v FROM app.items WHERE k = ?")
        self.select_one.consistency_level = ConsistencyLevel.ONE
        self.find = prepare("SELECT k FROM app.items WHERE tag = ?")
        self.swap = prepare("UPDATE app.items SET v = ?, tag = ? WHERE k = ? IF v = ?")
        self.increment = prepare("UPDATE app.counts SET n = n + 1 WHERE k = ?")
        self.count = prepare("SELECT n FROM app.counts WHERE k = ?")
        self.put = [prepare(f"INSERT INTO app.{t} (k, v) VALUES (?, ?)") for t in ("debits", "credits")]
        self.get = [prepare(f"SELECT v FROM app.{t} WHERE k = ?") for t in ("debits", "credits")]
        self.blob = prepare("INSERT INTO load.grown (k, v) VALUES (?, ?)")
        self.drop = prepare("DELETE FROM load.grown WHERE k = ?")
        self.read_blob = prepare("SELECT v FROM load.grown WHERE k = ?")
        # When a connection breaks, this driver resends all requests without a response unless it is configured otherwise.
        # A resent increment would count twice, and a condition that was already applied would no longer hold.
        self.once = FallthroughRetryPolicy()

    def ask(self, statement, values=None, repeat=True):
        """Returns the rows of the result. If repeat is false, the request is sent at most once."""
        try:
            if not repeat:
                statement, values = statement.bind(values), None
                statement.retry_policy = self.once
            rows = list(self.session.execute(statement, values))
        except Exception as e:
            with self.lock:
                self.requests += 1
                self.errors += 1
                if not self.tolerate:
                    self.end(f"{getattr(statement, 'query_string', statement)} {values}: {type(e).__name__}: {e}")
            raise Unanswered from e
        with self.lock:
            self.requests += 1
        return rows

    def end(self, wrong):
        self.wrong = self.wrong or wrong
        self.stop.set()

    def check(self, ok, *about):
        if not ok:
            with self.lock:
                self.end(" ".join(map(str, about)))


class User(threading.Thread):
    """Uses separate rows, so that every result is known in advance."""

    def __init__(self, app, first):
        super().__init__()
        self.app, self.last, self.items, self.blobs = app, first, [], {}
        self.rng = random.Random(first)
        self.counter, self.counted = self.take(), 0

    def take(self):
        self.last += 1
        return self.last

    def run(self):
        steps = [self.write] * 20 + [self.read] * 30 + [self.find] * 15 + [self.swap] * 15 + [self.increment] * 10 + \
            [self.transfer] * 10 + [self.fill] * 5
        while not self.app.stop.is_set():
            try:
                if len(self.items) < ITEMS:
                    self.write(Item(self.take()))
                else:
                    self.rng.choice(steps)(self.rng.choice(self.items))
            except Unanswered:
                pass
            except Exception as e:
                self.app.end(f"{type(e).__name__}: {e}")

    def give_up(self, x):
        if x in self.items:
            self.items.remove(x)

    def write(self, x):
        tag = self.take()
        try:
            self.app.ask(self.app.insert, (x.key, x.value + 1, tag))
        except Unanswered:
            self.give_up(x)
            raise
        self.written(x, x.value + 1, tag)
        if x not in self.items:
            self.items.append(x)

    @staticmethod
    def written(x, value, tag):
        x.value, x.old_tag, x.tag, x.acked = value, x.tag, tag, time.monotonic()

    def read(self, x, quorum=None):
        if quorum is None:
            quorum = self.rng.random() < 0.5
        least = x.value if quorum or time.monotonic() - x.acked > STALENESS else 0
        rows = self.app.ask(self.app.select if quorum else self.app.select_one, (x.key,))
        v = rows[0].v if rows else 0
        self.app.check(least <= v <= x.value, "item", x.key, "has", v, "want", least, "to", x.value, "quorum", quorum)

    def find(self, x):
        for tag, want in ((x.tag, [x.key]), (x.old_tag, [])):
            if tag is not None:
                found = [r.k for r in self.app.ask(self.app.find, (tag,))]
                self.app.check(found == want, "the index finds", found, "of tag", tag, "want", want)

    def swap(self, x):
        for was in (x.value + 7, x.value):
            tag = self.take()
            try:
                row = self.app.ask(self.app.swap, (was + 1, tag, x.key, was), repeat=False)[0]
            except Unanswered:
                self.give_up(x)
                raise
            applied = row[0]
            self.app.check(applied == (was == x.value) and (applied or row.v == x.value), "IF v =", was, "of item", x.key,
                           "answered", row, "it was", x.value)
            if applied:
                self.written(x, was + 1, tag)

    def increment(self, _=None):
        try:
            self.app.ask(self.app.increment, (self.counter,), repeat=False)
        except Unanswered:
            self.counter, self.counted = self.take(), 0
            raise
        self.counted += 1
        n = self.app.ask(self.app.count, (self.counter,))[0].n
        self.app.check(n == self.counted, "counter", self.counter, "is", n, "want", self.counted)

    def transfer(self, _):
        k = self.take()
        batch = BatchStatement(BatchType.LOGGED, consistency_level=ConsistencyLevel.QUORUM)
        for put in self.app.put:
            batch.add(put, (k, k + 1))
        self.app.ask(batch)
        for get in self.app.get:
            rows = self.app.ask(get, (k,))
            self.app.check([r.v for r in rows] == [k + 1], "after the batch", k, "has", rows)

    def fill(self, _):
        """Overwrites, deletes, and reads rows of the table that grows and shrinks."""
        i = self.rng.randrange(BLOBS)
        k, want = self.blobs.get(i, (None, None))
        if k is None:
            k = self.take()
        try:
            if want is None or self.rng.random() < 0.5:
                want = self.rng.randbytes(100)
                self.app.ask(self.app.blob, (k, want))
            else:
                want = None
                self.app.ask(self.app.drop, (k,))
        except Unanswered:
            self.blobs.pop(i, None)
            raise
        self.blobs[i] = (k, want)
        self.read_blob(i)

    def read_blob(self, i):
        k, want = self.blobs[i]
        rows = self.app.ask(self.app.read_blob, (k,))
        self.app.check([r.v for r in rows] == ([] if want is None else [want]), "row", k, "of load.grown has", rows)

    def check_all(self):
        for x in self.items:
            self.read(x, quorum=True)
            self.find(x)
        for i in self.blobs:
            self.read_blob(i)
        self.increment()


def main():
    hosts, port, first = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    app = App(hosts, port, "--tolerate" in sys.argv)
    users = [User(app, first + (i << 32)) for i in range(USERS)]
    for u in users:
        u.start()
    threading.Thread(target=lambda: (sys.stdin.read(), app.stop.set()), daemon=True).start()
    while not app.stop.wait(1):
        tell(app)
    faulthandler.dump_traceback_later(END, exit=True)
    for u in users:
        u.join()
    if not app.wrong:
        for u in users:
            u.check_all()
    tell(app)
    app.cluster.shutdown()
    if app.wrong:
        sys.exit(app.wrong)


def tell(app):
    print(json.dumps({"requests": app.requests, "errors": app.errors}), flush=True)


main()
