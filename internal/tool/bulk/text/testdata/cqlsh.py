# Writes cqlsh.csv as COPY TO of cqlsh does, and cqlsh.json with the texts that were exported: python3 cqlsh.py, with
# cqlsh installed (pip install cqlsh), in this directory. Made with cqlsh 6.2.2 and Python 3.11.
import csv
import json

from cqlshlib.displaying import NO_COLOR_MAP
from cqlshlib.formatting import format_value_text

texts = [
    "plain", "it's", '{"a":1}', '"', '""', 'a "b" c', "a,b", "a,\"b\",c", "\\", "a\\b", "a\\\\b", "\\n", "a\\nb,c",
    "line\nend", "line\r\nend", "tab\tand\x00zero", "bell\x07", "del\x7f", "c1\x85\xa0", "é中😀", " lead and trail ",
    "\\\"", "\\,", "a\\", "{'k': 'v'}", "\\x41", "\\\\x41", "ends with,\\",
]
with open("cqlsh.csv", "w", newline="", encoding="utf-8") as f:
    w = csv.writer(f, delimiter=",", quotechar='"', escapechar="\\", doublequote=False, quoting=csv.QUOTE_MINIMAL)
    for t in texts:
        w.writerow(["1", format_value_text(t, encoding="utf-8", colormap=NO_COLOR_MAP), "2"])
with open("cqlsh.json", "w", encoding="utf-8") as f:
    for t in texts:
        f.write(json.dumps(t) + "\n")
