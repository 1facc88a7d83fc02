// SPDX-License-Identifier: Apache-2.0
//
// Runs full-text and hybrid searches with @azure/cosmos, with the endpoint and key of the command line. Each query is executed
// by the server, and by the SDK with the server's query plan, as for the service. Exits with 1 at the first wrong result.
"use strict";
const assert = require("node:assert");
const { CosmosClient } = require("@azure/cosmos");

const [endpoint, key] = process.argv.slice(2);
const client = new CosmosClient({ endpoint, key, connectionPolicy: { enableBackgroundEndpointRefreshing: false } });

async function main() {
  const { database } = await client.databases.create({ id: "hybrid-js" });
  const fullTextPolicy = { defaultLanguage: "en-US", fullTextPaths: [{ path: "/text", language: "en-US" }] };
  const { container, resource } = await database.containers.create({ id: "items", partitionKey: { paths: ["/k"], version: 2 },
    fullTextPolicy,
    vectorEmbeddingPolicy: { vectorEmbeddings: [{ path: "/v", dataType: "float32", dimensions: 2, distanceFunction: "cosine" }] },
    indexingPolicy: { includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/v/*" }], fullTextIndexes: [{ path: "/text" }] } });
  assert.deepStrictEqual(resource.fullTextPolicy, fullTextPolicy);
  assert.deepStrictEqual(resource.indexingPolicy.fullTextIndexes, [{ path: "/text" }]);
  console.log("ranges", (await container.readPartitionKeyRanges().fetchAll()).resources.length);
  for (let i = 0; i < 60; i++) {
    const text = "filler ".repeat(i) + "bicycles" + (i % 20 === 3 ? " mountain" : "");
    await container.items.create({ id: `${i}`, k: `${i % 12}`, text, v: [1, i] });
  }
  for (const forceQueryPlan of [false, true]) {
    const ids = async (query, parameters, options) => {
      const iterator = container.items.query({ query, parameters: parameters ?? [] }, { forceQueryPlan, ...options });
      return (await iterator.fetchAll()).resources.map((item) => item.id);
    };
    assert.deepStrictEqual(await ids("SELECT TOP 4 * FROM c ORDER BY RANK FullTextScore(c.text, 'mountain', 'bicycle')"),
      ["3", "23", "43", "0"]);
    const word = { name: "@word", value: "mountains" };
    assert.deepStrictEqual(await ids("SELECT * FROM c ORDER BY RANK FullTextScore(c.text, @word) OFFSET 1 LIMIT 2", [word]),
      ["23", "43"]);
    assert.deepStrictEqual(await ids("SELECT TOP 3 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, @word), VectorDistance(c.v, @v), [2, 1])",
      [word, { name: "@v", value: [1, 0] }]), ["3", "0", "1"]);
    assert.deepStrictEqual(await ids("SELECT TOP 3 c.id FROM c ORDER BY RANK RRF(VectorDistance(c.v, [1, 0]), VectorDistance(c.v, [1, 1]))"),
      ["1", "2", "3"]);
    if (!forceQueryPlan) {
      assert.deepStrictEqual(await ids("SELECT TOP 2 * FROM c ORDER BY RANK FullTextScore(c.text, 'mountain')", [],
        { partitionKey: "11", maxItemCount: 1 }), ["23", "11"]);
    }
  }
  await database.delete();
  console.log("ok");
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
