# SPDX-License-Identifier: Apache-2.0
"""Runs the first steps of a Python application: python_driver.py HOST PORT PROTOCOL_VERSION [NODES]"""
import sys
import threading
import uuid

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.metadata import Murmur3Token
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, SimpleStatement

host, port, version = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
nodes = int(sys.argv[4]) if len(sys.argv) > 4 else 1
ks = f"compat_py{version}"


def connect():
    # A read at the default level, LOCAL_ONE, may miss a write that another node has acknowledged.
    profile = ExecutionProfile(load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")),
                               consistency_level=ConsistencyLevel.LOCAL_QUORUM)
    return Cluster([host], port=port, protocol_version=version, execution_profiles={EXEC_PROFILE_DEFAULT: profile})


cluster = connect()
session = cluster.connect()
assert cluster.protocol_version == version, cluster.protocol_version

session.execute(f"DROP KEYSPACE IF EXISTS {ks}")
session.execute(f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
session.set_keyspace(ks)
session.execute("CREATE TABLE wide (p text, c int, v text, tags set<text>, m map<text, int>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)")

# One contact point is enough to discover all nodes. Every node gets requests and has the schema. With four replicas, every node is a replica of each key.
assert len(cluster.metadata.all_hosts()) == nodes, cluster.metadata.all_hosts()
assert cluster.control_connection.wait_for_schema_agreement()
if nodes == 4:
    assert len(cluster.metadata.get_replicas(ks, b"a")) == nodes, cluster.metadata.get_replicas(ks, b"a")
    asked = {session.execute("SELECT host_id FROM system.local").one().host_id for _ in range(3 * nodes)}
    assert asked == {h.host_id for h in cluster.metadata.all_hosts()}, asked

# A second client receives schema changes as events.
watcher = connect()
watcher.connect()
seen = threading.Event()
orig = watcher.metadata._update_table
watcher.metadata._update_table = lambda meta: (orig(meta), seen.set() if meta.name == "watched" else None)
session.execute("CREATE TABLE watched (k int PRIMARY KEY)")
assert seen.wait(10), "no schema event"
assert "watched" in watcher.metadata.keyspaces[ks].tables
watcher.shutdown()

insert = session.prepare("INSERT INTO wide (p, c, v, tags, m) VALUES (?, ?, ?, ?, ?)")
futures = [session.execute_async(insert, ("a", i, f"value {i}", {"x", "y"}, {"n": i})) for i in range(10000)]
for f in futures:
    f.result()
rows = list(session.execute(SimpleStatement("SELECT c, v, m FROM wide WHERE p = 'a'", fetch_size=777)))
assert len(rows) == 10000, len(rows)
assert [r.c for r in rows] == list(range(9999, -1, -1))
assert rows[0].m == {"n": 9999}

# The server and the driver compute the same tokens.
token = session.prepare("SELECT token(p) FROM wide WHERE p = ? LIMIT 1")
for key in ("a", "é", "Beef Products", ""):
    if key:
        session.execute(insert, (key, 1, "x", None, None))
        assert session.execute(token, (key,)).one()[0] == Murmur3Token.hash_fn(key.encode()), key

batch = BatchStatement(consistency_level=ConsistencyLevel.QUORUM)
for i in range(3):
    batch.add(insert, ("b", i, "batched", None, None))
session.execute(batch)
assert session.execute("SELECT count(*) FROM wide WHERE p = 'b'").one()[0] == 3

applied = session.execute("INSERT INTO watched (k) VALUES (1) IF NOT EXISTS").one()
assert applied.applied
assert not session.execute("INSERT INTO watched (k) VALUES (1) IF NOT EXISTS").one().applied

session.execute("CREATE TYPE addr (street text, zip int)")
session.execute("CREATE TABLE people (id uuid PRIMARY KEY, home frozen<addr>, at timestamp, f frozen<list<tuple<int, text>>>)")
me = uuid.uuid4()
session.execute("INSERT INTO people (id, home, at, f) VALUES (%s, {street: 'x', zip: 5}, toTimestamp(now()), [(1, 'one')])", (me,))
row = session.execute("SELECT * FROM people WHERE id = %s", (me,)).one()
assert row.home.zip == 5 and row.f == [(1, "one")], row

everything = session.prepare("SELECT * FROM people WHERE id = ?")
other = cluster.connect(ks)
elsewhere = other.prepare("SELECT * FROM people WHERE id = ?")
session.execute("ALTER TABLE people ADD age int")
session.execute("UPDATE people SET age = 5 WHERE id = %s", (me,))
for s, q in ((session, everything), (other, elsewhere), (session, everything)):
    row = s.execute(q, (me,)).one()
    assert row.age == 5 and row.home.zip == 5, row

traced = session.execute("SELECT * FROM wide WHERE p = 'b'", trace=True)
trace = traced.get_query_trace()
assert any("physical partition" in e.description for e in trace.events), [e.description for e in trace.events]

session.execute("CREATE TABLE vectors (k int PRIMARY KEY, f vector<float, 3>, x vector<text, 2>, s vector<smallint, 2>, l list<frozen<vector<float, 2>>>)")
put = session.prepare("INSERT INTO vectors (k, f, x, s, l) VALUES (?, ?, ?, ?, ?)")
session.execute(put, (1, [1.0, 2.5, -3.0], ["a", ""], [1, -2], [[1.0, 2.0], [3.0, 4.0]]))
row = session.execute("SELECT f, x, s, l, similarity_cosine(f, [1, 2.5, -3]) AS near FROM vectors WHERE k = 1").one()
assert list(row.f) == [1.0, 2.5, -3.0] and list(row.x) == ["a", ""] and list(row.s) == [1, -2] and row.near == 1, row
assert [list(v) for v in row.l] == [[1.0, 2.0], [3.0, 4.0]], row
assert "vector<float, 3>" in cluster.metadata.keyspaces[ks].tables["vectors"].export_as_string()

try:
    session.execute("SELECT nosuch FROM wide")
    raise AssertionError("accepted a column that does not exist")
except InvalidRequest as e:
    assert "Undefined column name nosuch" in str(e), e

assert "CREATE TABLE" in cluster.metadata.keyspaces[ks].tables["wide"].export_as_string()
session.execute(f"DROP KEYSPACE {ks}")
cluster.shutdown()
print(f"python driver, protocol v{version}, {nodes} node(s): 10,000 rows paged, events, tokens, batch, LWT, UDT, vectors, tracing, errors")
