#!/usr/bin/env python3
"""Checks that the public API of a crate shows types and traits of a few crates only.

    .ci/public_api.py RUSTDOC_JSON ALLOWED_CRATE...

Whoever depends on the crate depends on the versions of what its API shows. The JSON is what rustdoc says of the crate: every
item in it is public, and names what it refers to by an id that leads to a crate. Impls that the compiler adds for every type are
not ours and left out.
"""

import json
import sys


def references(node):
    """The ids of all paths, bounds and re-exports below a node."""
    if isinstance(node, dict):
        if node.get("id") is not None and ("path" in node or "source" in node):
            yield str(node["id"])
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def is_ours(item):
    impl = item["inner"].get("impl", {})
    return item["crate_id"] == 0 and not impl.get("is_synthetic") and impl.get("blanket_impl") is None


def main():
    file, *allowed = sys.argv[1:]
    with open(file, encoding="utf-8") as text:
        doc = json.load(text)
    crates = {int(number): crate["name"] for number, crate in doc["external_crates"].items()}
    shown = {}
    for item in filter(is_ours, doc["index"].values()):
        # Links in docs are no part of the API.
        for id in references(item["inner"]):
            target = doc["paths"].get(id) or doc["index"][id]
            if target["crate_id"] == 0:
                continue
            span = item["span"] or {"filename": "?", "begin": [0, 0]}
            where = f"{span['filename']}:{span['begin'][0]}"
            shown.setdefault(crates[target["crate_id"]], set()).add((where, "::".join(target.get("path", [id]))))
    # A format that this does not understand must not look like a good API.
    if not {"core", *allowed} & shown.keys() or len(doc["index"]) < 100:
        sys.exit(f"format {doc['format_version']} of rustdoc's JSON is not understood: shown are {sorted(shown)}")
    foreign = sorted(set(shown) - set(allowed))
    for crate in foreign:
        for where, what in sorted(shown[crate]):
            print(f"{where}: the public API shows {what}", file=sys.stderr)
    if foreign:
        sys.exit(f"not allowed in the public API: {', '.join(foreign)}")
    print(f"the public API shows nothing but its own and: {', '.join(sorted(shown))}")


main()
