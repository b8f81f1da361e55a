"""Would the API break a program that was written against a released version's OpenAPI document?

    python -m tools.breaking_changes   compares docs/openapi.json with each release that this version must not break

One question is asked everywhere: is each value that one schema allows allowed by the other one too? What a client
sends must still be taken, so the old schema must fit into the new one; what it gets must still be as was promised, so
the new one must fit into the old one. Free to come are paths, methods, optional fields of requests, fields of
answers, and values of an answer's enum: clients ignore what they don't know (docs/versions.md). Run it in the
repository's root.
"""

import json
import sys
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any

from bots_service import __version__

Json = dict[str, Any]

DOCUMENT = Path("docs/openapi.json")
RELEASED = Path("tests/released")

LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
SAME = ("pattern", "format")
SAYS_NOTHING = frozenset({"title", "description"})
KNOWN = SAYS_NOTHING | {
    *LOWER, *UPPER, *SAME, "$ref", "additionalProperties", "anyOf", "default", "enum", "items", "prefixItems",
    "properties", "propertyNames", "required", "type",
}  # fmt: skip


def main() -> int:
    """Print what breaks; return 1 if something does."""
    new, found = json.loads(DOCUMENT.read_text("utf-8")), []
    kept = [folder for folder in sorted(RELEASED.glob("[0-9]*")) if not may_break(folder.name, __version__)]
    for folder in kept:
        old = json.loads((folder / "openapi.json").read_text("utf-8"))
        found += [f"breaks {folder.name}: {line}" for line in breaking_changes(old, new)]
    for line in found:
        print(line)
    if not found:
        print(f"API: nothing breaks {', '.join(folder.name for folder in kept) or 'a release, as this version may'}")
    return 1 if found else 0


class Side(Enum):
    """Who makes the values of a schema: SENT by the client, ANSWERED by the service."""

    SENT = auto()
    ANSWERED = auto()


def breaking_changes(old: Json, new: Json) -> list[str]:
    """Return what breaks, one line each, in the order of the older document.

    Args:
        old: an OpenAPI 3.1 document.
        new: a later one of the same API.

    Raises:
        ValueError: a schema says something that this comparison does not know, so that it would miss its changes.
    """
    _require_known(old)
    _require_known(new)
    return list(dict.fromkeys(_Comparison(old, new).operations()))


def may_break(old: str, new: str) -> bool:
    """Say whether a version may break what an older one promised: the first number that is not 0 has changed.

    Args:
        old: a version of three numbers, as semver.org has it.
        new: a later one.
    """
    before, now = (tuple(int(number) for number in version.split(".")) for version in (old, new))
    return before[0] != now[0] or (now[0] == 0 and before[1] != now[1])


class _Comparison:
    """Two documents, and which pairs of their named schemas have been compared: a schema may hold itself."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[Side, str, str]] = set()

    def operations(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method, old in methods.items():
                where = f"{method.upper()} {path}"
                new = self._new["paths"].get(path, {}).get(method)
                if new is None:
                    yield f"{where}: it is gone"
                else:
                    yield from self._operation(old, new, where)

    def _operation(self, old: Json, new: Json, where: str) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{where}: generated clients call it {new['operationId']}, not {old['operationId']}"
        yield from _security(old, new, where)
        yield from self._parameters(old, new, where)
        yield from self._body(old.get("requestBody"), new.get("requestBody"), f"{where} body")
        for status, answer in old["responses"].items():
            # A client must cope with any refusal, so one that never comes again breaks nothing.
            if not status.startswith("2"):
                continue
            if status not in new["responses"]:
                yield f"{where}: it no longer answers {status}"
            else:
                yield from self._content(answer, new["responses"][status], Side.ANSWERED, f"{where} {status}")

    def _parameters(self, old: Json, new: Json, where: str) -> Iterator[str]:
        before, now = ({(each["in"], each["name"]): each for each in of.get("parameters", ())} for of in (old, new))
        for key, parameter in now.items():
            if parameter["required"] and not (key in before and before[key]["required"]):
                yield f"{where} {key[0]} {key[1]}: it is required now"
        for key, parameter in before.items():
            if key not in now:
                yield f"{where} {key[0]} {key[1]}: it is gone"
            else:
                yield from self._schema(parameter["schema"], now[key]["schema"], Side.SENT, f"{where} {' '.join(key)}")

    def _body(self, old: Json | None, new: Json | None, where: str) -> Iterator[str]:
        if new is not None and new["required"] and not (old is not None and old["required"]):
            yield f"{where}: it is required now"
        if old is not None:
            yield from self._content(old, new or {}, Side.SENT, where)

    def _content(self, old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
        for media_type, content in old.get("content", {}).items():
            if media_type not in new.get("content", {}):
                yield f"{where}: {media_type} is gone"
            else:
                yield from self._schema(content["schema"], new["content"][media_type]["schema"], side, where)

    def _schema(self, old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
        """Yield what breaks between two schemas of the same place."""
        said, says = _resolved(old, self._old), _resolved(new, self._new)
        if side is Side.SENT and "default" in said and said["default"] != says.get("default"):
            yield f"{where}: left out it meant {said['default']!r}, now {says.get('default')!r}"
        olds = [(each, _resolved(each, self._old)) for each in old.get("anyOf", [old])]
        news = [(each, _resolved(each, self._new)) for each in new.get("anyOf", [new])]
        inner, outer = (olds, news) if side is Side.SENT else (news, olds)
        for each, kind in inner:
            fitting = next((other for other, its_kind in outer if _holds(its_kind, kind)), None)
            if fitting is None:
                kinds = " or ".join(_kind(its_kind) for _, its_kind in outer)
                was, now = (_kind(kind), kinds) if side is Side.SENT else (kinds, _kind(kind))
                yield f"{where}: was {was}, now {now}"
            else:
                before, after = (each, fitting) if side is Side.SENT else (fitting, each)
                yield from self._same_kind(before, after, side, where)

    def _same_kind(self, old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
        if "$ref" in old and "$ref" in new:
            pair = (side, old["$ref"], new["$ref"])
            if pair in self._compared:
                return
            self._compared.add(pair)
        if "$ref" in old:
            where = old["$ref"].rpartition("/")[2]
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        yield from _limits(old, new, side, where)
        yield from self._fields(old, new, side, where)
        yield from self._items(old, new, side, where)

    def _fields(self, old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        for name, schema in before.items():
            if name not in now:
                yield f"{where}.{name}: it is gone"
            else:
                yield from self._schema(schema, now[name], side, f"{where}.{name}")
        inner, outer = (old, new) if side is Side.SENT else (new, old)
        for name in outer.get("required", ()):
            if name not in inner.get("required", ()) and (side is Side.SENT or name in now):
                yield f"{where}.{name}: it {'is required now' if side is Side.SENT else 'may be missing now'}"
        for keyword in ("additionalProperties", "propertyNames"):
            one, other = old.get(keyword), new.get(keyword)
            if isinstance(one, dict) and isinstance(other, dict):
                yield from self._schema(one, other, side, f"{where}.*")
            elif side is Side.SENT and other not in (None, True, one):
                yield f"{where}: other fields are refused now, or their names"

    def _items(self, old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
        if ("prefixItems" in old) != ("prefixItems" in new):
            yield f"{where}: a list with a meaning for each place is another thing than one without"
            return
        for place, (one, other) in enumerate(zip(old.get("prefixItems", ()), new.get("prefixItems", ()), strict=False)):
            yield from self._schema(one, other, side, f"{where}[{place}]")
        one, other = old.get("items"), new.get("items")
        if isinstance(one, dict) and isinstance(other, dict):
            yield from self._schema(one, other, side, f"{where}[]")


def _security(old: Json, new: Json, where: str) -> Iterator[str]:
    """Yield the scopes that no longer suffice; a route without any takes everybody."""
    before, now = ({scope for way in of.get("security", ()) for scope in way["key"]} for of in (old, new))
    if now and not before:
        yield f"{where}: it needs a key now"
    for scope in sorted(before - now if now else ()):
        yield f"{where}: a key with the scope {scope} no longer suffices"


def _limits(old: Json, new: Json, side: Side, where: str) -> Iterator[str]:
    """Yield which limits of one schema the other one may pass."""
    inner, outer = (old, new) if side is Side.SENT else (new, old)
    said = "is refused now" if side is Side.SENT else "may come now"
    for keyword in (*LOWER, *UPPER, *SAME):
        limit, has = outer.get(keyword), inner.get(keyword)
        if limit is None or limit == has:
            continue
        if (
            keyword == "pattern"
            and has is not None
            and limit.startswith(f"{has.removesuffix('$')}(")
            and limit.endswith(")?$")
        ):
            continue  # the same, and more at the end where one likes
        is_inside = has is not None and keyword not in SAME and ((has > limit) == (keyword in LOWER))
        if not is_inside:
            yield (
                f"{where}: what has no {keyword} {limit} {said}"
                if has is None
                else (
                    f"{where}: {keyword} was {has}, now {limit}"
                    if side is Side.SENT
                    else f"{where}: {keyword} {has} {said}"
                )
            )
    if side is Side.SENT and "enum" in outer:
        for value in inner.get("enum", ()):
            if value not in outer["enum"]:
                yield f"{where}: {value!r} is refused now"


def _holds(outer: Json, inner: Json) -> bool:
    """Say whether values of the inner schema's kind are of the outer one's."""
    wanted, given = _kind(outer), _kind(inner)
    if wanted == "string" and given == "text of a list" and "enum" not in outer:
        return True
    return wanted in ("anything", given) or (wanted, given) == ("number", "integer")


def _kind(schema: Json) -> str:
    if "enum" in schema:
        return "text of a list"
    kind: str = schema.get("type", "anything")
    return kind


def _resolved(schema: Json, document: Json) -> Json:
    """Return the schema that a reference points to, with the keywords next to the reference."""
    if "$ref" not in schema:
        return schema
    named: Json = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return {**named, **{keyword: value for keyword, value in schema.items() if keyword != "$ref"}}


def _require_known(document: Json) -> None:
    for name, schema in document["components"]["schemas"].items():
        unknown = sorted(set(_keywords(schema)) - KNOWN)
        if unknown:
            raise ValueError(f"the schema {name} says {', '.join(unknown)}: teach tools/breaking_changes.py about it")


def _keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    yield from schema
    for keyword in ("additionalProperties", "items", "propertyNames"):
        yield from _keywords(schema.get(keyword))
    for each in (*schema.get("anyOf", ()), *schema.get("prefixItems", ()), *schema.get("properties", {}).values()):
        yield from _keywords(each)


if __name__ == "__main__":
    sys.exit(main())
