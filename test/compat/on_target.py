# SPDX-License-Identifier: Apache-2.0
"""Writes and reads keys of the tables target.t0, target.t1, and so on, and checks the results: on_target.py HOST PORT TABLES SECONDS"""
import sys
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy

host, port, tables, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
profile = ExecutionProfile(
    consistency_level=ConsistencyLevel.LOCAL_QUORUM, load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")))
cluster = Cluster([host], port=port, protocol_version=4, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
session = cluster.connect("target")
writes = [session.prepare(f"INSERT INTO t{i} (k, v) VALUES (?, ?)") for i in range(tables)]
reads = [session.prepare(f"SELECT v FROM t{i} WHERE k = ?") for i in range(tables)]
until, k = time.time() + seconds, 0
while time.time() < until:
    for i in range(tables):
        k += 1
        session.execute(writes[i], (k, k))
        assert session.execute(reads[i], (k,)).one().v == k, k
cluster.shutdown()
print(f"{2 * k} requests")
