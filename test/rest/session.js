// SPDX-License-Identifier: Apache-2.0
//
// Runs typical operations of an application with @azure/cosmos, with the endpoint and key of the command line. Exits with 1 at
// the first wrong result.
"use strict";
const assert = require("node:assert");
const { CosmosClient } = require("@azure/cosmos");

const [endpoint, key] = process.argv.slice(2);
const client = new CosmosClient({ endpoint, key, connectionPolicy: { enableBackgroundEndpointRefreshing: false } });

async function fails(code, promise, what) {
  try {
    await promise;
  } catch (e) {
    assert.strictEqual(e.code, code, `${what}: ${e.code} ${e.message}`);
    return e;
  }
  assert.fail(`${what}: no error, want ${code}`);
}

async function resources() {
  const account = await client.getDatabaseAccount();
  assert.strictEqual(account.resource.consistencyPolicy, "Session");
  const { database, statusCode } = await client.databases.create({ id: "js" });
  assert.strictEqual(statusCode, 201);
  await fails(409, client.databases.create({ id: "js" }), "a database twice");
  assert.strictEqual((await client.databases.createIfNotExists({ id: "js" })).statusCode, 200);
  assert.deepStrictEqual((await client.databases.readAll().fetchAll()).resources.map((d) => d.id), ["js"]);
  const made = await database.containers.create({ id: "foods", partitionKey: { paths: ["/foodGroup"], version: 2 } });
  assert.strictEqual(made.statusCode, 201);
  const read = await made.container.read();
  assert.deepStrictEqual(read.resource.partitionKey.paths, ["/foodGroup"]);
  assert.strictEqual(read.resource.indexingPolicy.indexingMode, "consistent");
  assert.strictEqual((await database.containers.readAll().fetchAll()).resources.length, 1);
  await fails(404, database.container("nosuch").items.create({ id: "1" }), "an item of no container");
  const throughput = await made.container.readOffer();
  assert.strictEqual(throughput.resource.content.offerThroughput, 400);
  const raised = { ...throughput.resource, content: { ...throughput.resource.content, offerThroughput: 4000 } };
  await client.offer(throughput.resource.id).replace(raised); // prevents throttling in this test
  assert.strictEqual((await made.container.readOffer()).resource.content.offerThroughput, 4000);
  return { database, container: made.container };
}

async function items(container) {
  const beef = { id: "1", foodGroup: "Beef Products", name: "Beef, ground", calories: 254, tags: ["red"] };
  const created = await container.items.create(beef);
  assert.strictEqual(created.statusCode, 201);
  assert.ok(created.requestCharge > 0);
  assert.ok(created.resource._etag && created.resource._rid && created.resource._self && created.resource._ts > 0);
  await fails(409, container.items.create(beef), "an item twice");
  // IDs are unique per logical partition.
  assert.strictEqual((await container.items.create({ ...beef, foodGroup: "Baked Products" })).statusCode, 201);

  const item = container.item("1", "Beef Products");
  const read = await item.read();
  assert.strictEqual(read.resource.name, "Beef, ground");
  assert.strictEqual(read.etag, created.resource._etag);
  const same = await item.read({ accessCondition: { type: "IfNoneMatch", condition: read.etag } });
  assert.strictEqual(same.statusCode, 304);
  assert.strictEqual((await container.item("nosuch", "Beef Products").read()).statusCode, 404);

  const replaced = await item.replace({ ...beef, calories: 255 },
    { accessCondition: { type: "IfMatch", condition: read.etag } });
  assert.strictEqual(replaced.resource.calories, 255);
  assert.notStrictEqual(replaced.etag, read.etag);
  await fails(412, item.replace(beef, { accessCondition: { type: "IfMatch", condition: read.etag } }), "an old etag");
  assert.strictEqual((await container.items.upsert({ ...beef, id: "2" })).statusCode, 201);
  assert.strictEqual((await container.items.upsert({ ...beef, id: "2", calories: 1 })).statusCode, 200);
  await fails(400, item.replace({ ...beef, foodGroup: "Vegetables" }), "another key");

  const patched = await item.patch([{ op: "incr", path: "/calories", value: 5 }, { op: "add", path: "/tags/-", value: "lean" },
    { op: "set", path: "/origin", value: { land: "é" } }, { op: "remove", path: "/name" }]);
  assert.strictEqual(patched.resource.calories, 260);
  assert.deepStrictEqual(patched.resource.tags, ["red", "lean"]);
  assert.strictEqual(patched.resource.origin.land, "é");
  assert.ok(!("name" in patched.resource));
  await fails(412, item.patch({ condition: "from c where c.calories > 1000", operations: [{ op: "incr", path: "/calories",
    value: 1 }] }), "a condition that does not hold");

  assert.strictEqual((await container.item("2", "Beef Products").delete()).statusCode, 204);
  await fails(404, container.item("2", "Beef Products").delete(), "an item that is gone");
  for (const id of ["a b", "é", "100%20", "x+y=z", "a&b"]) {
    await container.items.create({ id, foodGroup: "names" });
    assert.strictEqual((await container.item(id, "names").read()).resource.id, id);
    await container.item(id, "names").delete();
  }
}

async function keys(container) {
  for (const [id, foodGroup] of [["n", null], ["t", true], ["f", false], ["0", 0], ["1.5", 1.5], ["e", ""]]) {
    await container.items.create({ id, foodGroup });
    assert.strictEqual((await container.item(id, foodGroup).read()).resource.foodGroup, foodGroup);
  }
  await container.items.create({ id: "none" });
  assert.strictEqual((await container.item("none", undefined).read()).resource.id, "none");
}

async function batches(container) {
  const done = await container.items.batch([
    { operationType: "Create", resourceBody: { id: "b1", foodGroup: "batch", n: 1 } },
    { operationType: "Upsert", resourceBody: { id: "b2", foodGroup: "batch", n: 2 } },
    { operationType: "Read", id: "b1" },
    { operationType: "Patch", id: "b1", resourceBody: { operations: [{ op: "incr", path: "/n", value: 10 }] } },
    { operationType: "Delete", id: "b2" },
  ], "batch");
  assert.deepStrictEqual(done.result.map((r) => r.statusCode), [201, 201, 200, 200, 204]);
  const undone = await container.items.batch([
    { operationType: "Create", resourceBody: { id: "b3", foodGroup: "batch" } },
    { operationType: "Create", resourceBody: { id: "b1", foodGroup: "batch" } },
  ], "batch");
  assert.deepStrictEqual(undone.result.map((r) => r.statusCode), [424, 409]);
  assert.strictEqual((await container.item("b3", "batch").read()).statusCode, 404);
  const bulk = await container.items.executeBulkOperations([
    { operationType: "Create", partitionKey: "x", resourceBody: { id: "1", foodGroup: "x" } },
    { operationType: "Create", partitionKey: "y", resourceBody: { id: "1", foodGroup: "y" } },
    { operationType: "Read", partitionKey: "z", id: "nosuch" },
  ]);
  assert.deepStrictEqual(bulk.map((r) => (r.response ?? r.error).statusCode ?? r.error.code), [201, 201, 404]);
}

async function queries(container) {
  const of = async (query, options) => (await container.items.query(query, options).fetchAll()).resources;
  for (let i = 0; i < 10; i++) {
    await container.items.create({ id: `q${i}`, foodGroup: `q${i % 3}`, rank: i, tags: [`t${i % 2}`], even: i % 2 === 0 });
  }
  const by = { query: "SELECT * FROM c WHERE c.foodGroup = @g ORDER BY c.rank", parameters: [{ name: "@g", value: "q1" }] };
  assert.deepStrictEqual((await of(by)).map((d) => d.rank), [1, 4, 7]);
  assert.deepStrictEqual((await of("SELECT VALUE c.rank FROM c WHERE STARTSWITH(c.id, 'q') ORDER BY c.rank DESC",
    { maxItemCount: 3 })), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  assert.deepStrictEqual(await of("SELECT VALUE COUNT(1) FROM c WHERE c.rank >= 0"), [10]);
  assert.deepStrictEqual(await of("SELECT VALUE SUM(c.rank) FROM c"), [45]);
  assert.deepStrictEqual(await of("SELECT c.foodGroup, COUNT(1) AS many FROM c WHERE c.rank >= 0 GROUP BY c.foodGroup"), [
    { foodGroup: "q0", many: 4 }, { foodGroup: "q1", many: 3 }, { foodGroup: "q2", many: 3 }]);
  assert.deepStrictEqual((await of("SELECT DISTINCT VALUE c.even FROM c WHERE IS_DEFINED(c.even)")).sort(), [false, true]);
  assert.deepStrictEqual(await of("SELECT VALUE c.rank FROM c WHERE c.rank >= 0 ORDER BY c.rank OFFSET 2 LIMIT 3"), [2, 3, 4]);
  assert.deepStrictEqual(await of("SELECT TOP 2 VALUE c.rank FROM c WHERE c.rank >= 0 ORDER BY c.rank"), [0, 1]);
  assert.strictEqual((await of("SELECT c.id, t FROM c JOIN t IN c.tags WHERE t = 't1'", { partitionKey: "q1" })).length, 2);
  await fails(400, of("SELECT * FROM"), "a query that is none");
  let pages = 0, seen = 0;
  const iterator = container.items.query("SELECT * FROM c WHERE c.rank >= 0", { maxItemCount: 4 });
  while (iterator.hasMoreResults()) {
    const page = await iterator.fetchNext();
    pages++;
    seen += (page.resources ?? []).length;
  }
  assert.strictEqual(seen, 10);
  assert.ok(pages >= 3, `${pages} pages`);
  const all = await container.items.readAll().fetchAll();
  assert.ok(all.resources.length >= 10);
}

async function scripts(container) {
  const { scripts, items } = container;
  await items.create({ id: "1", foodGroup: "scripts", n: 1 });
  await scripts.storedProcedures.create({
    id: "add",
    body: function add(id, by) {
      const c = getContext().getCollection();
      c.readDocument(`${c.getAltLink()}/docs/${id}`, (err, item) => {
        if (err) throw err;
        item.n += by;
        c.replaceDocument(item._self, item, (err, replaced) => {
          if (err) throw err;
          if (replaced.n > 10) throw new Error("too much");
          getContext().getResponse().setBody({ n: replaced.n });
        });
      });
    },
  });
  const add = (by) => scripts.storedProcedure("add").execute("scripts", ["1", by]);
  assert.deepStrictEqual((await add(4)).resource, { n: 5 });
  await fails(400, add(6), "a procedure that throws");
  assert.strictEqual((await container.item("1", "scripts").read()).resource.n, 5);
  await scripts.triggers.create({
    id: "stamp", triggerType: "Pre", triggerOperation: "Create",
    body: function () {
      const request = getContext().getRequest();
      request.setBody({ ...request.getBody(), stamped: true });
    },
  });
  const stamped = await items.create({ id: "2", foodGroup: "scripts" }, { preTriggerInclude: ["stamp"] });
  assert.strictEqual(stamped.resource.stamped, true);
  await scripts.userDefinedFunctions.create({ id: "twice", body: (x) => x * 2 });
  const twice = items.query("SELECT VALUE udf.twice(c.n) FROM c WHERE c.id = '1'", { partitionKey: "scripts" });
  assert.deepStrictEqual((await twice.fetchAll()).resources, [10]);
}

async function feed(container) {
  const { ChangeFeedStartFrom, ChangeFeedMode } = require("@azure/cosmos");
  const changes = async (from, options) => {
    const seen = [];
    const iterator = container.items.getChangeFeedIterator({ maxItemCount: 2, changeFeedStartFrom: from, ...options });
    while (iterator.hasMoreResults) {
      const page = await iterator.readNext();
      if (page.statusCode === 304) return { seen, next: page.continuationToken };
      seen.push(...page.result);
    }
  };
  for (const id of ["1", "2", "3"]) await container.items.create({ id, foodGroup: "feed", n: 0 });
  await container.items.upsert({ id: "1", foodGroup: "feed", n: 1 });
  await container.item("2", "feed").delete();
  const own = await changes(ChangeFeedStartFrom.Beginning("feed"));
  assert.deepStrictEqual(own.seen.map((d) => [d.id, d.n]), [["3", 0], ["1", 1]]);
  const { _lsn, ...rest } = own.seen[1];
  assert.ok(_lsn > own.seen[0]._lsn);
  assert.deepStrictEqual(rest, (await container.item("1", "feed").read()).resource);
  const all = await changes(ChangeFeedStartFrom.Beginning());
  assert.ok(all.seen.some((d) => d.foodGroup === "feed" && d.id === "3"));
  const now = await changes(ChangeFeedStartFrom.Now());
  assert.strictEqual(now.seen.length, 0);
  await container.items.upsert({ id: "3", foodGroup: "feed", n: 3 });
  for (const from of [all.next, now.next]) {
    const later = await changes(ChangeFeedStartFrom.Continuation(from));
    assert.deepStrictEqual(later.seen.map((d) => [d.id, d.n]), [["3", 3]]);
  }
  const recent = await changes(ChangeFeedStartFrom.Time(new Date(Date.now() - 3600e3)));
  assert.ok(recent.seen.length >= 2);
  await vectors(container.database);
  const { container: versions } = await container.database.containers.create({ id: "versions", partitionKey: "/k",
    changeFeedPolicy: { retentionDuration: 60 } });
  const mode = { changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes };
  await versions.items.create({ id: "1", k: "a", n: 1 });
  const from = await (async () => {
    const iterator = versions.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Now(), ...mode });
    return (await iterator.readNext()).continuationToken;
  })();
  await versions.items.upsert({ id: "1", k: "a", n: 2 });
  await versions.item("1", "a").delete();
  const iterator = versions.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(from), ...mode });
  const page = await iterator.readNext();
  assert.deepStrictEqual(page.result.map((c) => [c.metadata.operationType, c.current?.n, c.previous?.n]),
    [["replace", 2, 1], ["delete", undefined, 2]]);
  await versions.delete();
}

async function vectors(database) {
  const { container } = await database.containers.create({ id: "vectors", partitionKey: "/k", vectorEmbeddingPolicy: {
    vectorEmbeddings: [{ path: "/v", dataType: "float32", dimensions: 2, distanceFunction: "dotproduct" }] },
  indexingPolicy: { includedPaths: [{ path: "/*" }], vectorIndexes: [{ path: "/v", type: "quantizedFlat" }] } });
  for (let i = 0; i < 10; i++) await container.items.create({ id: `${i}`, k: `${i % 3}`, v: [i, 1] });
  const text = "SELECT TOP 3 c.id, VectorDistance(c.v, @v) AS score FROM c ORDER BY VectorDistance(c.v, @v)";
  const spec = { query: text, parameters: [{ name: "@v", value: [2, 5] }] };
  const found = (await container.items.query(spec).fetchAll()).resources;
  assert.deepStrictEqual(found, [{ id: "9", score: 23 }, { id: "8", score: 21 }, { id: "7", score: 19 }]);
  await container.delete();
}

async function main() {
  const { database, container } = await resources();
  const steps = { items, keys, batches, queries, scripts, feed };
  const only = process.env.STEPS ? process.env.STEPS.split(",") : Object.keys(steps);
  for (const step of only) {
    await steps[step](container);
    console.log("ok", step);
  }
  await container.delete();
  assert.strictEqual((await database.delete()).statusCode, 204);
  console.log("@azure/cosmos: all steps succeeded");
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
