# SPDX-License-Identifier: Apache-2.0
"""A blog on Django with django-cassandra-engine: models, sessions, views, management commands: django_app.py HOST PORT"""
import os
import sys
import tempfile

host, port, ks = sys.argv[1], int(sys.argv[2]), "compat_django"
os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"

import django  # noqa: E402
from cassandra.cluster import Cluster  # noqa: E402
from django.conf import settings  # noqa: E402

# The engine looks up the keyspace when it connects, so drop the remains of an earlier run first.
with Cluster([host], port=port) as cluster, cluster.connect() as session:
    session.execute(f"DROP KEYSPACE IF EXISTS {ks}")

settings.configure(
    SECRET_KEY="of this test", ALLOWED_HOSTS=["*"], ROOT_URLCONF="blog.urls", USE_TZ=True,
    INSTALLED_APPS=["django_cassandra_engine", "django_cassandra_engine.sessions", "blog"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    SESSION_ENGINE="django_cassandra_engine.sessions.backends.db",
    DATABASES={"default": {
        "ENGINE": "django_cassandra_engine", "NAME": ks, "TEST_NAME": ks + "_test", "HOST": host,
        "OPTIONS": {"replication": {"strategy_class": "SimpleStrategy", "replication_factor": 1},
                    "connection": {"port": port, "retry_connect": True}, "session": {"default_timeout": 20}}}})


# The application "blog" as in a real project: files in a folder on the path.
project = tempfile.TemporaryDirectory()
os.mkdir(os.path.join(project.name, "blog"))
FILES = {"__init__.py": "", "models.py": """
import uuid
from cassandra.cqlengine import columns
from django_cassandra_engine.models import DjangoCassandraModel


class Post(DjangoCassandraModel):
    id = columns.UUID(primary_key=True, default=uuid.uuid4)
    blog = columns.Text(index=True)
    title = columns.Text(required=True)
    created_at = columns.DateTime()
    tags = columns.Set(columns.Text)

    class Meta:
        get_pk_field = "id"
""", "urls.py": """
import json
from django.http import JsonResponse
from django.urls import path
from blog.models import Post


def posts(request):
    if request.method == "POST":
        post = Post.objects.create(blog="b", tags={"new"}, **json.loads(request.body))
        request.session["last"] = str(post.id)
        return JsonResponse({"id": str(post.id)}, status=201)
    request.session["visits"] = request.session.get("visits", 0) + 1
    return JsonResponse({"titles": sorted(p.title for p in Post.objects.filter(blog="b")),
                         "visits": request.session["visits"], "last": request.session.get("last")})


urlpatterns = [path("posts", posts)]
"""}
for name, text in FILES.items():
    with open(os.path.join(project.name, "blog", name), "w") as f:
        f.write(text)
sys.path.insert(0, project.name)
django.setup()
from blog.models import Post  # noqa: E402
from cassandra.cqlengine.management import drop_keyspace  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

call_command("sync_cassandra", verbosity=0)
call_command("sync_cassandra", verbosity=0)
cursor = connection.cursor()
client = Client()
ids = [client.post("/posts", {"title": f"Post {i}"}, content_type="application/json").json()["id"] for i in range(5)]
got = client.get("/posts").json()
assert got == {"titles": [f"Post {i}" for i in range(5)], "visits": 1, "last": ids[-1]}, got
assert client.get("/posts").json()["visits"] == 2
assert Client().get("/posts").json()["visits"] == 1, "a new visitor has a separate session"

post = Post.objects.get(id=ids[0])
post.title = "Edited"
post.tags.add("edited")
post.save()
post = Post.objects.get(pk=ids[0])
assert post.title == "Edited" and post.tags == {"new", "edited"}, dict(post)
assert len(list(Post.objects.filter(id__in=ids[:2]))) == 2 and len(list(Post.objects.all())) == 5
Post.objects.get(id=ids[1]).delete()
assert not Post.objects.filter(id=ids[1]).first()
assert [tuple(r) if not isinstance(r, dict) else tuple(r.values()) for r in cursor.execute(f"SELECT COUNT(*) FROM {ks}.post")] == [(4,)]
assert "post" in [str(n) for n in connection.introspection.table_names()], connection.introspection.table_names()
call_command("flush", interactive=False, verbosity=0)
assert not list(Post.objects.all())
drop_keyspace(ks)
print(f"Django {django.get_version()}: keyspace and tables made, views, sessions, edit, delete, flush")
