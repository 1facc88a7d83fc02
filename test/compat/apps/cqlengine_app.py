# SPDX-License-Identifier: Apache-2.0
"""A sensor log with the object mapper of the Python driver: cqlengine_app.py HOST PORT"""
import os
import sys
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
from cassandra.cqlengine import ValidationError, columns, connection, functions
from cassandra.cqlengine.management import (create_keyspace_simple, drop_keyspace, drop_table, sync_table, sync_type)
from cassandra.cqlengine.models import Model
from cassandra.cqlengine.query import BatchQuery, ContextQuery, DoesNotExist, LWTException
from cassandra.cqlengine.statements import IsNotNull  # noqa: F401  (applications may import it)
from cassandra.cqlengine.usertype import UserType

host, port, ks = sys.argv[1], int(sys.argv[2]), "compat_cqlengine"


class Place(UserType):
    street = columns.Text()
    zip = columns.Integer()


class Sensor(Model):
    __keyspace__ = ks
    __options__ = {"compaction": {"class": "LeveledCompactionStrategy", "sstable_size_in_mb": "64"}, "gc_grace_seconds": 3600, "comment": "sensors"}
    site = columns.UUID(primary_key=True, partition_key=True, default=uuid.uuid4)
    day = columns.Date(primary_key=True, partition_key=True)
    at = columns.DateTime(primary_key=True, clustering_order="DESC")
    owner = columns.Text(static=True)
    kind = columns.Text(index=True)
    value = columns.Decimal()
    labels = columns.Set(columns.Text)
    steps = columns.List(columns.Integer)
    facts = columns.Map(columns.Text, columns.Double)
    place = columns.UserDefinedType(Place)
    pair = columns.Tuple(columns.Integer, columns.Text)
    on = columns.Boolean(default=True)
    level = columns.TinyInt()
    count = columns.BigInt()
    big = columns.VarInt()
    raw = columns.Blob()
    net = columns.Inet()
    clock = columns.Time()


class Visits(Model):
    __keyspace__ = ks
    page = columns.Text(primary_key=True)
    hits = columns.Counter()


class Animal(Model):
    __keyspace__ = ks
    __table_name__ = "animal"
    id = columns.Integer(primary_key=True)
    kind = columns.Text(discriminator_column=True)


class Cat(Animal):
    __discriminator_value__ = "cat"
    lives = columns.Integer()


connection.setup([host], "cassandra", port=port, lazy_connect=False)
drop_keyspace(ks)
create_keyspace_simple(ks, 1)
sync_type(ks, Place)
for model in (Sensor, Visits, Cat):
    sync_table(model)
    sync_table(model)  # the second call must change nothing: the schema that the mapper reads equals its model

site, day = uuid.uuid4(), date(2026, 11, 23)
begin = datetime(2026, 11, 23, 10, 0, 0)
for i in range(200):
    Sensor.create(site=site, day=day, at=begin + timedelta(seconds=i), owner="ada", kind="odd" if i % 2 else "even", value=Decimal("1.25") * i,
                  labels={"a", str(i % 3)}, steps=[i, i + 1], facts={"x": i / 2}, place=Place(street="High St", zip=i), pair=(i, "p"),
                  level=i % 100, count=1 << 40, big=1 << 80, raw=b"\x00\xff", net="10.0.0.1", clock="10:11:12")
mine = Sensor.objects(site=site, day=day)
assert mine.count() == 200
first = mine.first()
assert first.at == begin + timedelta(seconds=199) and first.value == Decimal("248.75") and first.place.zip == 199, dict(first)
assert first.labels == {"a", "1"} and first.facts == {"x": 99.5} and first.pair == (199, "p") and first.big == 1 << 80, dict(first)
assert len(mine.filter(at__gte=begin + timedelta(seconds=190))) == 10
assert [s.place.zip for s in mine.order_by("at").limit(3)] == [0, 1, 2]
assert len(Sensor.objects(kind="odd").allow_filtering()) == 100
assert mine.only(["value"]).first().value == Decimal("248.75")
assert next(iter(mine.values_list("place", flat=True))).street == "High St"
assert len(Sensor.objects(labels__contains="2").allow_filtering().limit(None)) == 66
assert len(Sensor.objects.filter(pk__token__gt=functions.Token(uuid.UUID(int=0), day)).limit(10000)) in (0, 200)

row = mine.filter(at=first.at)
row.update(labels__add={"new"}, steps__append=[7], facts__update={"y": 1.0}, value=None)
row.update(labels__remove={"a"})
again = Sensor.get(site=site, day=day, at=first.at)
assert again.labels == {"1", "new"} and again.steps == [199, 200, 7] and again.facts == {"x": 99.5, "y": 1.0} and again.value is None
again.owner = "grace"
again.save()
assert mine.order_by("at").first().owner == "grace"
mine.filter(at=begin).update(kind="first", steps__prepend=[-1])
assert mine.get(at=begin).steps == [-1, 0, 1]
mine.filter(at=begin).delete()
try:
    mine.get(at=begin)
    raise AssertionError("a deleted row is there")
except DoesNotExist:
    pass

Cat.if_not_exists().create(id=1, lives=9)
try:
    Cat.if_not_exists().create(id=1, lives=8)
    raise AssertionError("inserted twice")
except LWTException as e:
    assert e.existing["lives"] == 9 and not e.existing["[applied]"], e.existing
Cat.objects(id=1).iff(lives=9).update(lives=8)
try:
    Cat.objects(id=1).iff(lives=9).update(lives=7)
    raise AssertionError("updated against its condition")
except LWTException as e:
    assert e.existing["lives"] == 8
assert isinstance(Animal.get(id=1), Cat)
try:
    Cat.objects(id=2).if_exists().update(lives=1)
    raise AssertionError("updated what is not there")
except LWTException:
    pass

Cat.ttl(3600).create(id=3, lives=1)
with BatchQuery() as b:
    for i in range(10, 20):
        Cat.batch(b).create(id=i, lives=i)
    Cat.objects(id=3).batch(b).delete()
assert sorted(c.id for c in Cat.objects.all()) == [1] + list(range(10, 20))
Cat.timestamp(timedelta(seconds=-3600)).create(id=10, lives=0)
assert Cat.get(id=10).lives == 10, "an older write won"

for _ in range(3):
    page = Visits.create(page="/")
    page.hits += 2
    page.save()
assert Visits.get(page="/").hits == 6
try:
    Sensor.create(site=site, day=day, at=begin, level="much")
    raise AssertionError("not validated")
except ValidationError:
    pass


class Grown(Model):
    __keyspace__ = ks
    __table_name__ = "animal"
    id = columns.Integer(primary_key=True)
    kind = columns.Text()
    lives = columns.Integer()
    born = columns.DateTime()


sync_table(Grown)
Grown.create(id=77, born=datetime.now(timezone.utc))
assert Grown.get(id=77).born
drop_table(Visits)
drop_keyspace(ks)
connection.unregister_connection("default")
print("cqlengine: models, types, filters, collections, conditions, batches, counters, TTL, inheritance, sync of a changed table")
