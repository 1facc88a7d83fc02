// SPDX-License-Identifier: Apache-2.0
//
// Creates users, permissions, and client encryption keys with @azure/cosmos, and uses resource tokens at another node. The
// arguments are the endpoint for the account key, the key, and the endpoint for the tokens. Before a token must have expired,
// the program prints a line and waits for a line. Exits with 1 at the first wrong result.
"use strict";
const assert = require("node:assert");
const crypto = require("node:crypto");
const readline = require("node:readline");
const { CosmosClient } = require("@azure/cosmos");

const [endpoint, key, other] = process.argv.slice(2);
const connectionPolicy = { enableBackgroundEndpointRefreshing: false, enableEndpointDiscovery: false };
const client = new CosmosClient({ endpoint, key, connectionPolicy });
const limited = (resourceTokens) => new CosmosClient({ endpoint: other, resourceTokens, connectionPolicy });

async function fails(code, promise, what) {
  try {
    await promise;
  } catch (e) {
    assert.strictEqual(e.code, code, `${what}: ${e.code} ${e.message}`);
    return e;
  }
  assert.fail(`${what}: no error, want ${code}`);
}

async function users(database) {
  const { user, resource } = await database.users.create({ id: "u" });
  assert.ok(resource._rid && resource._self && resource._etag && resource._permissions === "permissions/");
  await fails(409, database.users.create({ id: "u" }), "a user twice");
  assert.strictEqual((await database.users.upsert({ id: "v" })).statusCode, 201);
  assert.strictEqual((await database.user("v").replace({ id: "w" })).resource.id, "w");
  assert.deepStrictEqual((await database.users.readAll().fetchAll()).resources.map((u) => u.id), ["u", "w"]);
  const found = await database.users.query("SELECT * FROM root r WHERE r.id = 'w'").fetchAll();
  assert.strictEqual(found.resources.length, 1);
  assert.strictEqual((await database.user("w").delete()).statusCode, 204);
  await fails(404, database.user("w").read(), "a deleted user");
  return user;
}

async function permissions(user, container) {
  const made = await user.permissions.create({ id: "p", permissionMode: "read", resource: container.url });
  assert.ok(made.resource._token.startsWith("type=resource&ver=1&sig="));
  await fails(409, user.permissions.create({ id: "q", permissionMode: "all", resource: container.url }), "the same resource");
  const read = await user.permission("p").read();
  assert.strictEqual(read.resource.resource, container.url);
  assert.deepStrictEqual((await user.permissions.readAll().fetchAll()).resources.map((p) => p.id), ["p"]);
  const found = await user.permissions.query("SELECT * FROM r WHERE r.permissionMode = 'read'").fetchAll();
  assert.ok(found.resources[0]._token);

  const foods = limited({ [container.url]: read.resource._token }).database("perm").container("foods");
  assert.strictEqual((await foods.item("1", "a").read()).resource.id, "1");
  const all = await foods.items.query("SELECT VALUE c.k FROM c ORDER BY c.k").fetchAll();
  assert.deepStrictEqual(all.resources, ["a", "b"]);
  assert.deepStrictEqual((await foods.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll()).resources, [2]);
  assert.strictEqual((await foods.read()).resource.id, "foods");
  await fails(403, foods.items.create({ id: "2", k: "a" }), "a write");
  await fails(403, foods.delete(), "deleting the container");

  await user.permission("p").replace({ id: "p", permissionMode: "all", resource: container.url });
  await fails(401, foods.item("1", "a").read(), "a token of a replaced permission");
  const { resource } = await user.permission("p").read();
  const writer = limited({ [container.url]: resource._token }).database("perm").container("foods");
  assert.strictEqual((await writer.items.upsert({ id: "2", k: "a" })).statusCode, 201);
  assert.strictEqual((await writer.item("2", "a").delete()).statusCode, 204);
  await user.permission("p").delete();
  await fails(401, writer.item("1", "a").read(), "a token of a deleted permission");
}

async function keyed(user, container) {
  const own = { id: "own", permissionMode: "All", resource: container.url, resourcePartitionKey: ["a"] };
  const { resource } = await user.permissions.upsert(own, { resourceTokenExpirySeconds: 10 });
  const foods = limited({ [container.url]: resource._token }).database("perm").container("foods");
  const partitionKey = "a";
  assert.strictEqual((await foods.item("1", "a").read()).resource.id, "1");
  assert.strictEqual((await foods.items.query("SELECT * FROM c", { partitionKey }).fetchAll()).resources.length, 1);
  const batch = await foods.items.batch([{ operationType: "Upsert", resourceBody: { id: "2", k: "a" } }], "a");
  assert.strictEqual(batch.code, 200);
  await fails(403, foods.item("1", "b").read(), "another key");
  await fails(403, foods.items.query("SELECT * FROM c").fetchAll(), "all keys");
  await fails(403, foods.items.create({ id: "2", k: "b" }), "a write to another key");
  const feed = { permissionFeed: [{ ...own, _token: resource._token }] };
  const fed = new CosmosClient({ endpoint: other, ...feed, connectionPolicy }).database("perm").container("foods");
  assert.strictEqual((await fed.item("1", "a").read()).resource.id, "1");

  console.log("expire");
  for await (const _ of readline.createInterface({ input: process.stdin })) break;
  await fails(403, foods.item("1", "a").read(), "an expired token");
  const again = (await user.permission("own").read()).resource._token;
  const renewed = limited({ [container.url]: again }).database("perm").container("foods");
  assert.strictEqual((await renewed.item("1", "a").read()).resource.id, "1");
}

// The data encryption key is wrapped by an exclusive or, because no key vault is available.
const keyEncryptionKeyResolver = {
  encryptionKeyResolverName: "TEST",
  wrapKey: async (id, algorithm, plain) => plain.map((b) => b ^ 0x5a),
  unwrapKey: async (id, algorithm, wrapped) => wrapped.map((b) => b ^ 0x5a),
};

async function encryption() {
  const owner = new CosmosClient({ endpoint, key, connectionPolicy, clientEncryptionOptions: { keyEncryptionKeyResolver } });
  const database = owner.database("perm");
  const wrap = { type: "TEST", name: "master", value: "vault/master", algorithm: "RSA-OAEP" };
  const made = await database.createClientEncryptionKey("cek", "AEAD_AES_256_CBC_HMAC_SHA256", wrap);
  assert.strictEqual(made.statusCode, 201);
  const read = await database.readClientEncryptionKey("cek");
  assert.strictEqual(read.resource.keyWrapMetadata.name, "master");
  const path = (path, encryptionType) => ({ path, clientEncryptionKeyId: "cek", encryptionType,
    encryptionAlgorithm: "AEAD_AES_256_CBC_HMAC_SHA256" });
  const { container } = await database.containers.create({ id: "secrets", partitionKey: { paths: ["/k"], version: 2 },
    clientEncryptionPolicy: { policyFormatVersion: 2, includedPaths: [path("/name", "Deterministic"),
      path("/note", "Randomized")] } });
  await container.items.create({ id: "1", k: "a", name: crypto.randomUUID(), note: { text: "secret" }, n: 1 });
  const item = (await container.item("1", "a").read()).resource;
  assert.deepStrictEqual(item.note, { text: "secret" });
  const stored = (await client.database("perm").container("secrets").item("1", "a").read()).resource;
  assert.ok(!JSON.stringify(stored).includes("secret") && stored.n === 1, JSON.stringify(stored));
  await database.rewrapClientEncryptionKey("cek", { ...wrap, name: "second", value: "vault/second" });
  assert.strictEqual((await database.readClientEncryptionKey("cek")).resource.keyWrapMetadata.name, "second");
  await fails(400, database.containers.create({ id: "wrong", partitionKey: { paths: ["/k"] }, clientEncryptionPolicy: {
    policyFormatVersion: 1, includedPaths: [{ ...path("/name", "Deterministic"), clientEncryptionKeyId: "none" }] } }),
  "a policy with an unknown key");
  await owner.dispose();
}

async function main() {
  const { database } = await client.databases.create({ id: "perm" });
  const { container } = await database.containers.create({ id: "foods", partitionKey: { paths: ["/k"], version: 2 } });
  for (const k of ["a", "b"]) await container.items.create({ id: "1", k });
  const user = await users(database);
  await permissions(user, container);
  await keyed(user, container);
  await encryption();
  await database.delete();
}

main().then(() => process.exit(0), (e) => { console.error(e); process.exit(1); });
