# SPDX-License-Identifier: Apache-2.0
"""A web application with users, on Flask with Flask-CQLAlchemy: flask_app.py HOST PORT"""
import os
import sys
import uuid

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
from cassandra.cqlengine.management import create_keyspace_simple, drop_keyspace  # noqa: E402
from flask import Flask, jsonify, request  # noqa: E402
from flask_cqlalchemy import CQLAlchemy  # noqa: E402

host, port, ks = sys.argv[1], int(sys.argv[2]), "compat_flask"
app = Flask("users")
app.config.update(CASSANDRA_HOSTS=[host], CASSANDRA_KEYSPACE=ks, CASSANDRA_SETUP_KWARGS={"port": port, "protocol_version": 4})
db = CQLAlchemy(app)


class User(db.Model):
    uid = db.columns.UUID(primary_key=True, default=uuid.uuid4)
    name = db.columns.Text(required=True, index=True)
    born = db.columns.Integer()


@app.post("/users")
def add():
    return jsonify(id=str(User.create(**request.get_json()).uid)), 201


@app.get("/users/<name>")
def named(name):
    return jsonify([{"name": u.name, "born": u.born} for u in User.objects.filter(name=name)])


@app.delete("/users/<uuid:uid>")
def remove(uid):
    User.objects(uid=uid).delete()
    return "", 204


with app.app_context():
    create_keyspace_simple(ks, 1)
    db.set_keyspace(ks)
    db.sync_db()
    db.sync_db()
    client = app.test_client()
    made = [client.post("/users", json={"name": n, "born": 1900 + i}).get_json()["id"] for i, n in enumerate(["ada", "grace", "ada"])]
    assert client.get("/users/grace").get_json() == [{"name": "grace", "born": 1901}]
    assert sorted(u["born"] for u in client.get("/users/ada").get_json()) == [1900, 1902]
    assert client.delete(f"/users/{made[0]}").status_code == 204
    assert [u["born"] for u in client.get("/users/ada").get_json()] == [1902]
drop_keyspace(ks)
print("Flask with Flask-CQLAlchemy: sync, create, find by an index, delete")
