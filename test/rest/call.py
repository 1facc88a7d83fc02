# SPDX-License-Identifier: Apache-2.0
"""Runs CALL with the Python driver: call.py HOST PORT. The container d.c has a procedure echo, which returns its arguments."""
import json
import sys
from collections import namedtuple

from cassandra import FunctionFailure, InvalidRequest
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.query import BatchStatement, tuple_factory

host, port = sys.argv[1], int(sys.argv[2])
profile = ExecutionProfile(row_factory=tuple_factory)
cluster = Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
session = cluster.connect()


def got(*args, **kwargs):
    return json.loads(session.execute(*args, **kwargs).one()[0])


def refused(error, text, *args):
    try:
        session.execute(*args)
    except error as e:
        assert text in str(e), e
        return
    raise AssertionError("not refused: %r" % (args,))


assert got("CALL d.c.echo('p', 1, 2.5, 'x', true, null, [1, 'a'], {'m': {'n': 1}})") == [1, 2.5, "x", True, None, [1, "a"], {"m": {"n": 1}}]
# Values that the driver inserts into the text itself.
assert got("CALL d.c.echo(%s, %s, %s, %s, %s)", ("p", 1, "it's", None, {"a": 1})) == [1, "it's", None, {"a": 1}]
assert got("CALL d.c.echo(%s, %s, %s)", ("p", [1, 2], True)) == [[1, 2], True]

session.execute("CREATE TYPE IF NOT EXISTS d.address (city text, zip int)")
cluster.refresh_user_type_metadata("d", "address")
prepared = session.prepare("CALL d.c.echo(?, (int) ?, (list<int>) ?, (map<text, int>) ?, (set<text>) ?, (d.address) ?, (tuple<int, text>) ?, fromJson(?), ?)")
address = namedtuple("address", "city zip")
assert got(prepared, ("p", 7, [1, 2], {"a": 1}, {"x"}, address("Paris", None), (1, "b"), '{"deep":[null]}', "t")) == \
    [7, [1, 2], {"a": 1}, ["x"], {"city": "Paris", "zip": None}, [1, "b"], {"deep": [None]}, "t"]
assert got(prepared, ("p", None, None, None, None, None, None, None, None)) == [None] * 8
refused(InvalidRequest, "Invalid unset value", prepared, ("p",))
refused(InvalidRequest, "is not valid JSON", prepared, ("p", 1, [], {}, set(), None, None, "{", "t"))
refused(FunctionFailure, "changed my mind", "CALL d.c.throws('p')")
refused(InvalidRequest, "EXPLAIN is not supported for CALL", "EXPLAIN CALL d.c.echo('p')")
batch = BatchStatement()
batch.add("CALL d.c.echo('p')")
refused(InvalidRequest, "only UPDATE, INSERT and DELETE", batch)
traced = session.execute("CALL d.c.echo('p')", trace=True)
assert any("Calling procedure c.echo" in e.description for e in traced.get_query_trace(10).events)
print("python driver: CALL works")
cluster.shutdown()
