// SPDX-License-Identifier: Apache-2.0
//
// Runs CALL with the Node.js driver: call.js HOST PORT. The container d.c has a procedure echo, which returns its arguments.
"use strict";
const assert = require("node:assert");
const cassandra = require("cassandra-driver");

const [host, port] = [process.argv[2], Number(process.argv[3])];

async function main() {
  const client = new cassandra.Client({ contactPoints: [`${host}:${port}`], localDataCenter: "datacenter1" });
  await client.connect();
  const got = async (...args) => JSON.parse((await client.execute(...args)).first().result);
  const refused = (text, code, ...args) => assert.rejects(client.execute(...args), (e) => {
    assert.ok(e.message.includes(text), e.message);
    assert.strictEqual(e.code, code, e.message);
    return true;
  });
  assert.deepStrictEqual(await got("CALL d.c.echo('p', 1, 'x', null, [1, 'a'], {'m': 1})"), [1, "x", null, [1, "a"], { m: 1 }]);
  // Values of an unprepared statement have the types that the driver guesses or that the hints specify.
  assert.deepStrictEqual(await got("CALL d.c.echo(?, ?, (double) ?, (int) ?)", ["p", "x", 2.5, 7], { hints: [null, null, "double", "int"] }),
    ["x", 2.5, 7]);

  await client.execute("CREATE TYPE IF NOT EXISTS d.address (city text, zip int)");
  const call = "CALL d.c.echo(?, (int) ?, (list<int>) ?, (map<text, int>) ?, (d.address) ?, fromJson(?), ?)";
  const prepare = { prepare: true };
  assert.deepStrictEqual(await got(call, ["p", 7, [1, 2], { a: 1 }, { city: "Paris", zip: null }, '{"deep":[null]}', "t"], prepare),
    [7, [1, 2], { a: 1 }, { city: "Paris", zip: null }, { deep: [null] }, "t"]);
  assert.deepStrictEqual(await got(call, ["p", null, null, null, null, null, null], prepare), [null, null, null, null, null, null]);
  await refused("Invalid unset value", 0x2200, call, ["p", cassandra.types.unset, null, null, null, null, null], prepare);
  await refused("is not valid JSON", 0x2200, call, ["p", 1, null, null, null, "{", null], prepare);
  await refused("changed my mind", 0x1400, "CALL d.c.throws('p')");
  await assert.rejects(client.batch(["CALL d.c.echo('p')"]), /only UPDATE, INSERT and DELETE/);
  const traced = await client.execute("CALL d.c.echo('p')", [], { traceQuery: true });
  const trace = await client.metadata.getTrace(traced.info.traceId);
  assert.ok(trace.events.some((e) => e.activity.includes("Calling procedure c.echo")));
  await client.shutdown();
  console.log("Node.js driver: CALL works");
}

main().catch((e) => { console.error(e); process.exit(1); });
