"""How an overlay's rules are laid over what a container runs. The rules themselves are in `overlay`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypertier.errors import ConfigError
from hypertier.lab.arguments import Option, edit_json
from hypertier.lab.differences import Difference

MIB = 2**20
SECRET = "***"
LEFT_OUT = "left out by --without"


@dataclass(frozen=True)
class Place:
    """Where one process of the lab runs. Ports are on 127.0.0.1."""

    port: int
    model_directory: str = ""
    served_model_name: str = ""
    l1_bytes: int = 128 * MIB
    l1_tokens: int = 0
    kv_cache_bytes: int = 128 * MIB
    max_model_len: int = 8192
    l2_port: int = 0
    l2_password: str = field(default="", repr=False)
    replica_urls: tuple[str, ...] = ()
    metrics_port: int = 0
    events_port: int = 0
    replay_port: int = 0
    replica_events: tuple[str, ...] = ()
    routes_file: str = ""


@dataclass(frozen=True)
class Rule:
    """One difference. `here` is a template over the fields of `Place`, `""` a flag, None removes it.

    `--option.a.0.b` names a member of an option's JSON value. With `only_if_set` nothing is added that the
    manifest does not have. `numeric` makes a JSON member a number.
    """

    setting: str
    here: str | None
    why: str
    only_if_set: bool = False
    numeric: bool = False


@dataclass(frozen=True)
class Overlay:
    """The rules for one kind of process, and what is kept as rendered."""

    options: tuple[Rule, ...]
    kept_options: frozenset[str]
    env: tuple[Rule, ...]
    kept_env: frozenset[str]

    def without(self, names: Collection[str]) -> Overlay:
        """Leave further options (`--name`) and variables out, whatever the rules said of them."""
        return Overlay(
            options=rules_without(self.options, [name for name in names if name.startswith("-")]),
            kept_options=self.kept_options - frozenset(names),
            env=rules_without(self.env, [name for name in names if not name.startswith("-")]),
            kept_env=self.kept_env - frozenset(names),
        )


def rules_without(rules: Iterable[Rule], names: Sequence[str]) -> tuple[Rule, ...]:
    """Replace the rules for these settings by ones that remove them."""
    others = (rule for rule in rules if rule.setting.partition(".")[0] not in names)
    return (*others, *(Rule(name, None, LEFT_OUT, only_if_set=True) for name in names))


def lay_over_options(
    overlay: Overlay, options: Sequence[Option], place: Place
) -> tuple[tuple[Option, ...], list[Difference]]:
    """Apply the rules to a container's options, in their order; what is added comes last."""
    result = list(options)
    differences: list[Difference] = []
    for rule in overlay.options:
        name, *path = rule.setting.split(".")
        here = None if rule.here is None else rule.here.format_map(vars(place))
        given = [option for option in result if option.name == name]
        if path:
            if given:
                value: Any = int(here) if rule.numeric and here is not None else here
                text, old = edit_json(name, given[-1].text, path, value)
                result[result.index(given[-1])] = Option(name, (text,))
                if text != given[-1].text:
                    note(differences, rule, old, here)
            continue
        if rule.only_if_set and not given:
            continue
        wanted = None if here is None else Option(name, (here,) if here else ())
        if given == [wanted]:
            continue
        note(differences, rule, given[-1].text if given else None, here)
        place_of = result.index(given[0]) if given else len(result)
        result = [option for option in result if option.name != name]
        if wanted is not None:
            result.insert(min(place_of, len(result)), wanted)
    return tuple(result), differences


def lay_over_env(
    overlay: Overlay, env: Mapping[str, str | None], place: Place
) -> tuple[dict[str, str], list[Difference]]:
    """Apply the rules to a container's environment; a value of None comes from the cluster."""
    result = {name: value for name, value in env.items() if value is not None}
    differences: list[Difference] = []
    for rule in overlay.env:
        if rule.only_if_set and rule.setting not in env:
            continue
        here = None if rule.here is None else rule.here.format_map(vars(place)) or None
        rendered = env.get(rule.setting, None) if rule.setting in env else None
        if rule.setting in env and rendered is None:
            rendered = "from the cluster"
        if here is None:
            result.pop(rule.setting, None)
        else:
            result[rule.setting] = here
        if here != rendered:
            note(differences, rule, rendered, here)
    return result, differences


def note(differences: list[Difference], rule: Rule, rendered: str | None, here: str | None) -> None:
    """Add a line to the table; passwords are blotted out."""
    if here and "PASSWORD" in rule.setting:
        here = SECRET
    differences.append(Difference(rule.setting, rendered, here, rule.why))


def check_understood(
    overlay: Overlay, options: Sequence[Option], env: Mapping[str, str | None], container: str
) -> None:
    """Refuse what stands in no rule and no list, or what only the cluster can fill, all of it at once.

    Raises:
        ConfigError: names the first with its value, and what leaves all of them out.
    """
    rules = {rule.setting for rule in (*overlay.options, *overlay.env)}
    found = {
        option.name: (option.name, option.text or "given")
        for option in options
        if option.name not in overlay.kept_options | rules
    }
    for name, value in env.items():
        if name not in rules and (value is None or name not in overlay.kept_env):
            found[name] = (f"env {name}", "from the cluster" if value is None else SECRET)  # it may be one
    if not found:
        return
    setting, got = next(iter(found.values()))
    raise ConfigError(
        f"{container}: {setting}",
        got,
        "nothing, or a setting that the lab knows how to carry over to this machine (docs/lab.md): leave out "
        f"what it does not know with {' '.join(f'--without {name}' for name in found)}",
    )
