// SPDX-License-Identifier: Apache-2.0
// A video site with the object mapper of the Node.js driver, and with express-cassandra if it is installed: mapper_app.js HOST PORT
const assert = require('assert');
const cassandra = require('cassandra-driver');
const { Mapper, UnderscoreCqlToCamelCaseMappings, q } = cassandra.mapping;

const [host, port] = [process.argv[2], Number(process.argv[3])];
const ks = 'compat_mapper';
const { Uuid, TimeUuid, Tuple, LocalDate, LocalTime, Duration, InetAddress, BigDecimal, Integer, Long } = cassandra.types;

async function mapped() {
  const admin = new cassandra.Client({ contactPoints: [`${host}:${port}`], localDataCenter: 'datacenter1' });
  await admin.execute(`DROP KEYSPACE IF EXISTS ${ks}`);
  await admin.execute(`CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
  await admin.shutdown();
  const client = new cassandra.Client({ contactPoints: [`${host}:${port}`], localDataCenter: 'datacenter1', keyspace: ks, encoding: { useBigIntAsLong: false } });
  for (const text of [
    'CREATE TABLE videos (video_id uuid PRIMARY KEY, user_id uuid, video_name text, added_date timestamp, tag_list set<text>, star_map map<text, int>)',
    'CREATE TABLE user_videos (user_id uuid, added_date timestamp, video_id uuid, video_name text, PRIMARY KEY (user_id, added_date, video_id)) WITH CLUSTERING ORDER BY (added_date DESC, video_id ASC)',
    'CREATE TABLE video_views (video_id uuid PRIMARY KEY, view_count counter)',
    'CREATE TYPE pair (a int, b frozen<list<text>>)',
    'CREATE TABLE kinds (k int PRIMARY KEY, b bigint, d date, t time, u timeuuid, du duration, i inet, dec decimal, vi varint, tup tuple<int, text>, p frozen<pair>, bo boolean, bl blob, f float, dd double, s smallint, ti tinyint)',
  ]) await client.execute(text);
  const mapper = new Mapper(client, { models: { Video: { tables: [{ name: 'videos' }, { name: 'user_videos' }], mappings: new UnderscoreCqlToCamelCaseMappings() },
    Views: { tables: ['video_views'], mappings: new UnderscoreCqlToCamelCaseMappings() } } });
  const videos = mapper.forModel('Video'), views = mapper.forModel('Views');
  const userId = Uuid.random(), ids = [];
  for (let i = 0; i < 20; i++) {
    ids.push(Uuid.random());
    await videos.insert({ videoId: ids[i], userId, videoName: `video ${i}`, addedDate: new Date(1700000000000 + i * 1000), tagList: ['x', `t${i}`], starMap: { n: i } });
  }
  const one = await videos.get({ videoId: ids[3] });
  assert.equal(one.videoName, 'video 3');
  assert.deepEqual(one.tagList.sort(), ['t3', 'x']);
  const newest = await videos.find({ userId, addedDate: q.gte(new Date(1700000010000)) }, { fields: ['videoName'], limit: 5 });
  assert.deepEqual(newest.toArray().map(v => v.videoName), [19, 18, 17, 16, 15].map(i => `video ${i}`));
  await videos.update({ videoId: ids[3], userId, addedDate: new Date(1700000003000), videoName: 'renamed' });
  assert.equal((await videos.get({ videoId: ids[3] })).videoName, 'renamed');
  assert.equal((await videos.find({ userId, addedDate: new Date(1700000003000) })).first().videoName, 'renamed');
  await videos.update({ videoId: ids[4], tagList: q.append(['more']), starMap: q.append({ m: 1 }) }, { fields: ['videoId', 'tagList', 'starMap'] });
  assert.deepEqual((await videos.get({ videoId: ids[4] })).starMap, { m: 1, n: 4 });
  const refused = await videos.insert({ videoId: ids[5], videoName: 'again' }, { fields: ['videoId', 'videoName'], ifNotExists: true });
  assert.equal(refused.wasApplied(), false);
  assert.equal(refused.first().videoName, 'video 5');
  assert.equal((await videos.update({ videoId: ids[5], videoName: 'cond' }, { fields: ['videoId', 'videoName'], when: { videoName: 'video 5' } })).wasApplied(), true);
  await mapper.batch([videos.batching.remove({ videoId: ids[6] }, { fields: ['videoId'] }), videos.batching.insert({ videoId: ids[7], videoName: 'batched' }, { fields: ['videoId', 'videoName'] })]);
  assert.equal(await videos.get({ videoId: ids[6] }), null);
  await views.update({ videoId: ids[0], viewCount: q.incr(3) });
  await views.update({ videoId: ids[0], viewCount: q.decr(1) });
  assert.equal((await views.get({ videoId: ids[0] })).viewCount.toString(), '2');

  const u = TimeUuid.now();
  const values = [1, Long.fromString('9007199254740993'), LocalDate.fromString('2026-11-23'), LocalTime.fromString('10:11:12.000000013'), u, Duration.fromString('1mo2d3h'),
    InetAddress.fromString('::1'), BigDecimal.fromString('1.50'), Integer.fromString('123456789012345678901234567890'), new Tuple(1, 'one'), { a: 1, b: ['x'] }, true,
    Buffer.from('00ff', 'hex'), 1.5, 2.25, -3, -4];
  await client.execute('INSERT INTO kinds (k, b, d, t, u, du, i, dec, vi, tup, p, bo, bl, f, dd, s, ti) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)', values, { prepare: true });
  const got = (await client.execute('SELECT k, b, d, t, u, du, i, dec, vi, tup, p, bo, bl, f, dd, s, ti FROM kinds')).first().values();
  values.forEach((v, i) => assert.equal(JSON.stringify(got[i]), JSON.stringify(v), `column ${i}`));
  const pages = await client.execute('SELECT video_id FROM videos', [], { prepare: true, fetchSize: 7 });
  let n = 0;
  for await (const row of pages) n += row.videoId === null ? 0 : 1;
  assert.equal(n, 19);
  const meta = await client.metadata.getTable(ks, 'user_videos');
  assert.deepEqual([meta.partitionKeys.map(c => c.name), meta.clusteringKeys.map(c => c.name), meta.clusteringOrder], [['user_id'], ['added_date', 'video_id'], ['DESC', 'ASC']]);
  assert.deepEqual((await client.metadata.getUdt(ks, 'pair')).fields.map(f => f.name), ['a', 'b']);
  await client.execute(`DROP KEYSPACE ${ks}`);
  await client.shutdown();
}

// Models of express-cassandra create the keyspace, tables, types, indexes, and view themselves.
async function express() {
  let models;
  try {
    models = require('express-cassandra');
  } catch (e) {
    return 'without express-cassandra';
  }
  const db = models.createClient({
    clientOptions: { contactPoints: [host], protocolOptions: { port }, keyspace: 'compat_express', localDataCenter: 'datacenter1', queryOptions: { consistency: models.consistencies.one } },
    ormOptions: { defaultReplicationStrategy: { class: 'SimpleStrategy', replication_factor: 1 }, migration: 'safe', udts: { phone: { alias: 'text', number: 'text' } } },
  });
  await db.initAsync();
  const Person = db.loadSchema('Person', {
    fields: { name: 'text', surname: 'text', age: 'int', phones: { type: 'set', typeDef: '<frozen<phone>>' }, active: { type: 'boolean', default: true },
      created: { type: 'timestamp', default: { $db_function: 'toTimestamp(now())' } } },
    key: [['name'], 'surname'], indexes: ['age'], options: { timestamps: { createdAt: 'made', updatedAt: 'changed' } },
  });
  await Person.syncDBAsync();
  assert.equal(await Person.syncDBAsync(), false, 'a second time nothing is to be done');
  for (let i = 0; i < 5; i++) await new Person({ name: 'John', surname: `Doe ${i}`, age: 30 + i, phones: [{ alias: 'home', number: `${i}` }] }).saveAsync();
  assert.equal((await Person.findAsync({ name: 'John', surname: { $gte: 'Doe 2' } })).length, 3);
  const john = await Person.findOneAsync({ age: 33 });
  assert.ok(john.surname === 'Doe 3' && john.active && john.created instanceof Date && john.made && [...john.phones][0].number === '3');
  john.age = 40;
  await john.saveAsync();
  assert.equal((await Person.findOneAsync({ age: 40 })).surname, 'Doe 3');
  await Person.updateAsync({ name: 'John', surname: 'Doe 0' }, { age: 1 }, { if_exists: true });
  await Person.deleteAsync({ name: 'John', surname: 'Doe 1' });
  assert.equal((await Person.findAsync({ name: 'John' }, { raw: true, select: ['surname'] })).length, 4);
  await Person.execute_queryAsync('DROP KEYSPACE compat_express', []);
  await db.closeAsync();
  return 'express-cassandra: models synchronized, found by an index, changed';
}

mapped().then(express).then(said => {
  console.log(`node mapper: two tables a model, conditions, batches, counters, all types, paging, metadata; ${said}`);
  process.exit(0);
}).catch(err => { console.error(err); process.exit(1); });
