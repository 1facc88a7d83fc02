# SPDX-License-Identifier: Apache-2.0
"""Connects over TLS with an account key, as applications of Azure Cosmos DB's Cassandra API do: account.py HOST PORT KEY READ_ONLY_KEY CA [NODES]"""
import ssl
import sys

from cassandra import ConsistencyLevel, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.query import SimpleStatement

host, port, key, read_only_key, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
nodes = int(sys.argv[6]) if len(sys.argv) > 6 else 1


def connect(password):
    ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    ssl_context.check_hostname = False
    ssl_context.load_verify_locations(ca)
    ssl_context.verify_mode = ssl.CERT_REQUIRED
    auth_provider = PlainTextAuthProvider(username="my-account", password=password)
    cluster = Cluster([host], port=port, auth_provider=auth_provider, ssl_context=ssl_context)
    return cluster, cluster.connect()


cluster, session = connect(key)
hosts = cluster.metadata.all_hosts()
assert len(hosts) == nodes and all(h.endpoint.port == port for h in hosts), hosts
session.execute("DROP KEYSPACE IF EXISTS uprofile")
session.execute("CREATE KEYSPACE uprofile WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1' : '1' }")
session.execute("CREATE TABLE uprofile.user (user_id int PRIMARY KEY, user_name text, user_bcity text) WITH cosmosdb_provisioned_throughput=4000 AND cdc=true")
insert = session.prepare("INSERT INTO uprofile.user (user_id, user_name, user_bcity) VALUES (?, ?, ?)")
for i, (name, city) in enumerate([("Lybkov", "Seattle"), ("Doniv", "Dubai"), ("Keviv", "Chennai")]):
    session.execute(insert, (i, name, city))
rows = list(session.execute("SELECT * FROM uprofile.user WHERE user_id = 1"))
assert [(r.user_id, r.user_name, r.user_bcity) for r in rows] == [(1, "Doniv", "Dubai")], rows

# Reads the change feed page by page, as Microsoft's sample does.
feed = SimpleStatement("SELECT * FROM uprofile.user WHERE COSMOS_CHANGEFEED_START_TIME()='2020-01-01 00:00:00Z'", fetch_size=2)
seen, state = set(), None
while True:
    page = session.execute(feed, paging_state=state)
    state = page.paging_state
    changed = {r.user_id for r in page.current_rows}
    if not changed:
        break
    seen |= changed
assert seen == {0, 1, 2}, seen

reader_cluster, reader = connect(read_only_key)
assert reader.execute("SELECT user_name FROM uprofile.user WHERE user_id = 2").one().user_name == "Keviv"
try:
    reader.execute("INSERT INTO uprofile.user (user_id) VALUES (9)")
    raise AssertionError("the read-only key writes")
except Unauthorized:
    pass
try:
    connect("bm90IHRoZSBrZXk=")
    raise AssertionError("a wrong key comes in")
except NoHostAvailable as e:
    assert "are incorrect" in str(e), e
session.execute("DROP KEYSPACE uprofile")
reader_cluster.shutdown()
cluster.shutdown()
print(f"an application of Azure Cosmos DB is served by {nodes} node(s) at port {port}")
