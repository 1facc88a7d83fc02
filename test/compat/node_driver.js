// SPDX-License-Identifier: Apache-2.0
// Runs the first steps of a Node.js application: node_driver.js HOST PORT [NODES]
const assert = require('assert');
const cassandra = require('cassandra-driver');

const [host, port, nodes] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] || 1)];
const ks = 'compat_node';

async function main() {
  // A read at the default level, LOCAL_ONE, may miss a write that another node has acknowledged.
  const queryOptions = { consistency: cassandra.types.consistencies.localQuorum };
  const client = new cassandra.Client({ contactPoints: [`${host}:${port}`], localDataCenter: 'datacenter1', queryOptions });
  await client.connect();
  await client.execute(`DROP KEYSPACE IF EXISTS ${ks}`);
  await client.execute(`CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
  await client.execute(`CREATE TABLE ${ks}.wide (p text, c int, v text, tags set<text>, m map<text, int>, PRIMARY KEY (p, c))`);

  assert.equal(client.hosts.length, nodes);
  if (nodes === 4) assert.equal(client.getReplicas(ks, Buffer.from('a')).length, nodes);

  const watcher = new cassandra.Client({ contactPoints: [`${host}:${port}`], localDataCenter: 'datacenter1' });
  await watcher.connect();
  assert.ok(!await watcher.metadata.getTable(ks, 'watched'));
  await client.execute(`CREATE TABLE ${ks}.watched (k int PRIMARY KEY)`);
  assert.ok(await watcher.metadata.getTable(ks, 'watched'));
  await watcher.shutdown();

  const insert = `INSERT INTO ${ks}.wide (p, c, v, tags, m) VALUES (?, ?, ?, ?, ?)`;
  const params = [];
  for (let i = 0; i < 10000; i++) params.push(['a', i, `value ${i}`, ['x', 'y'], { n: i }]);
  const loaded = await cassandra.concurrent.executeConcurrent(client, insert, params, { prepare: true });
  assert.equal(loaded.errors.length, 0);

  let n = 0;
  const pages = client.stream(`SELECT c, m FROM ${ks}.wide WHERE p = ?`, ['a'], { prepare: true, fetchSize: 777, autoPage: true });
  for await (const row of pages) {
    assert.equal(row.c, n);
    assert.equal(row.m.n, n);
    n++;
  }
  assert.equal(n, 10000);

  const tokenizer = client.metadata.tokenizer;
  for (const key of ['a', 'é', 'Beef Products']) {
    await client.execute(insert, [key, 1, 'x', null, null], { prepare: true });
    const rs = await client.execute(`SELECT token(p) AS t FROM ${ks}.wide WHERE p = ? LIMIT 1`, [key], { prepare: true });
    assert.equal(rs.first().t.toString(), tokenizer.hash(Buffer.from(key)).getValue().toString(), key);
  }

  await client.batch([
    { query: insert, params: ['b', 1, 'batched', null, null] },
    { query: insert, params: ['b', 2, 'batched', null, null] },
  ], { prepare: true });
  const count = await client.execute(`SELECT count(*) AS n FROM ${ks}.wide WHERE p = 'b'`);
  assert.equal(count.first().n.toNumber(), 2);

  const first = await client.execute(`INSERT INTO ${ks}.watched (k) VALUES (1) IF NOT EXISTS`);
  const second = await client.execute(`INSERT INTO ${ks}.watched (k) VALUES (1) IF NOT EXISTS`);
  assert.ok(first.wasApplied() && !second.wasApplied());

  await assert.rejects(client.execute(`SELECT nosuch FROM ${ks}.wide`), /Undefined column name nosuch/);

  const traced = await client.execute(`SELECT * FROM ${ks}.wide WHERE p = 'b'`, [], { traceQuery: true });
  const trace = await client.metadata.getTrace(traced.info.traceId);
  assert.ok(trace.events.some(e => /physical partition/.test(e.activity)), JSON.stringify(trace.events));

  await client.execute(`DROP KEYSPACE ${ks}`);
  await client.shutdown();
  console.log(`node driver, ${nodes} node(s): 10,000 rows streamed, schema, tokens, batch, LWT, tracing, errors`);
}

main().catch(err => { console.error(err); process.exit(1); });
