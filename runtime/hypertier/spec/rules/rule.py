"""What a rule is: a name, a severity, a source, a message in two languages, and a check that finds hits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypertier.spec.rules.subject import Subject
from hypertier.spec.said import Language, Said
from hypertier.spec.tree import Path, dotted

Severity = Literal["error", "warning"]

ENDPOINT = "InferenceEndpointConfig"
JUMPSTART = "JumpStartModel"
DEPLOYMENT = "Deployment"
GATEWAY = "InferenceGatewayConfig"
CLUSTER = "Cluster"
SERVICE_ACCOUNT = "ServiceAccount"
MODELS = (ENDPOINT, JUMPSTART)

MAX_GOT_CHARACTERS = 80
UNSET = Said("not set", "미설정 상태")
EMPTY = Said("empty", "빈 값")


def unset(default: Any) -> Said:
    """How a message quotes a value that is not written and therefore is `default`."""
    return Said(f"not set, which means {default}", f"미설정 상태(기본값 {default})")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a document: `set` a value, `remove` it, `rename` its key, or `move` it to a path."""

    action: Literal["set", "remove", "rename", "move"]
    where: Path
    value: Any = None

    def below(self, inside: Path) -> Edit:
        """The same change of a document in which this one's stands at `inside`."""
        value = (*inside, *self.value) if self.action == "move" else self.value
        return Edit(self.action, (*inside, *self.where), value)


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule is broken.

    `fix` is the value that belongs at `where`, None where nobody but the author can know it. `edits` are what
    `--fix` does: by default setting `fix`; empty with a `fix` that is a suggestion alone.
    """

    where: Path
    fix: Any = None
    edits: tuple[Edit, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[Subject], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules. `en` and `ko` are templates over `path`, `got` and a hit's values."""

    name: str
    severity: Severity
    kinds: tuple[str, ...]
    source: str
    en: str
    ko: str
    check: Check

    def message(self, hit: Hit, subject: Subject, language: Language = "en") -> str:
        """What is wrong at `hit`, what works and why."""
        template = Said(self.en, self.ko).in_language(language)
        got = subject.manifest.get(hit.where)
        values = {"path": dotted(hit.where), "got": shown(got, language)} | dict(hit.values)
        return template.format(**{key: _text(value, language) for key, value in values.items()})


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    severity: Severity,
    *,
    source: str,
    en: str,
    ko: str,
    kinds: tuple[str, ...] = (ENDPOINT,),
) -> Callable[[Check], Check]:
    """Enter a check into the table of rules."""

    def enter(check: Check) -> Check:
        if name in RULES:
            raise AssertionError(f"two rules are named {name}")
        RULES[name] = Rule(name, severity, kinds, source, en, ko, check)
        return check

    return enter


def fixed(where: Path, value: Any, **values: Any) -> Hit:
    """A hit whose right value is known: `--fix` sets it."""
    return Hit(where, value, (Edit("set", where, value),), values)


def suggested(where: Path, value: Any, **values: Any) -> Hit:
    """A hit with a value that would work but that the author should choose: `--fix` leaves it."""
    return Hit(where, value, (), values)


def hit(where: Path, **values: Any) -> Hit:
    """A hit whose right value nobody but the author can know."""
    return Hit(where, None, (), values)


def did_you_mean(name: str) -> Said:
    """What a message says in passing of a name that was probably meant."""
    return Said(f" (did you mean {name}?)", f" ({name}을(를) 뜻했습니까?)")


def shown(value: Any, language: Language = "en") -> str:
    """A value as a message quotes it: as JSON, shortened; what is not there or empty by a word."""
    if value is None:
        return UNSET.in_language(language)
    if value in ("", [], {}):
        return EMPTY.in_language(language)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_GOT_CHARACTERS else text[: MAX_GOT_CHARACTERS - 1] + "…"


def _text(value: Any, language: Language) -> str:
    if isinstance(value, Said):
        return value.in_language(language)
    if isinstance(value, tuple | list | frozenset | set):
        return ", ".join(str(entry) for entry in value)
    return str(value)
