# SPDX-License-Identifier: Apache-2.0
"""Writes faster than the throughput of a table allows, waits for the requested time, and succeeds: throttled.py HOST PORT TABLE WRITES BYTES"""
import re
import struct
import sys
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import DCAwareRoundRobinPolicy, RetryPolicy, TokenAwarePolicy

host, port, table, writes, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
waits = []


class BackOff(RetryPolicy):
    def on_request_error(self, query, consistency, error, retry_num):
        found = re.search(r"RetryAfterMs=(\d+)", str(error))
        if "Request rate is large" not in str(error) or not found or retry_num >= 20:
            return self.RETHROW, None
        waits.append(int(found.group(1)))
        time.sleep(waits[-1] / 1000)
        return self.RETRY, consistency


profile = ExecutionProfile(
    consistency_level=ConsistencyLevel.LOCAL_QUORUM, retry_policy=BackOff(), request_timeout=30,
    load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")))
cluster = Cluster([host], port=port, protocol_version=4, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
session = cluster.connect()
insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
began = time.time()
for k in range(writes):
    future = session.execute_async(insert, (k, bytes(size)))
    future.result()
    (charge,) = struct.unpack(">d", future.custom_payload["RequestCharge"])
    assert charge == 50, charge
assert waits, "no write was throttled"
print(f"{writes} writes of 50 RU took {time.time() - began:.2f} s, with waits of {waits} ms")
cluster.shutdown()
