"""Arguments of a wrong type, told as every other mistake is: by the setting's name, before anything is made.

What a construct is given goes on to the CDK's own process, whose complaints name neither the setting nor what
works. So its annotations are held to at its door. Needs no `aws_cdk`: the charts use it too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from hypertier.errors import ConfigError
from hypertier.spec.deployment import IMAGE, IMAGE_FORM
from hypertier.spec.keywords import check_names

P = ParamSpec("P")
R = TypeVar("R")

_WORDS: Mapping[Any, str] = {
    str: "a text that is not empty",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Hold the arguments of a constructor to its annotations.

    Raises:
        ConfigError: an argument that there is none of, a missing one, one of another type, or an empty text;
            names it.
    """
    signature = inspect.signature(function)
    owner = function.__qualname__.removesuffix(".__init__")
    known = tuple(name for name in signature.parameters if name not in ("self", "cls"))
    required = tuple(name for name in known if signature.parameters[name].default is inspect.Parameter.empty)

    @functools.wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _hints(function)
        taken = [name for name, of in signature.parameters.items() if of.kind is not of.KEYWORD_ONLY]
        if len(args) > len(taken):
            raise ConfigError(owner, list(args[len(taken) :]), f"arguments by name after {taken[-1]}")
        given = dict(zip(taken, args, strict=False)) | kwargs
        if "self" in taken or "cls" in taken:
            given = {name: value for name, value in given.items() if name not in ("self", "cls")}
        check_names(owner, given, known, ())
        for name, value in given.items():
            if name in hints:
                _check(name, value, hints[name])
        check_names(owner, given, known, required)
        return function(*args, **kwargs)

    return held


def check_fields(values: Any, prefix: str) -> None:
    """Hold the fields of a dataclass to their annotations; `prefix` is what it is called where it is given.

    Raises:
        ConfigError: as `checked` does.
    """
    hints = _hints(typing.cast("Callable[..., Any]", type(values)))
    for field in dataclasses.fields(values):
        value = getattr(values, field.name)
        named = f"{prefix}.{field.name}"
        _check(named, value, hints[field.name])
        if dataclasses.is_dataclass(value):
            check_fields(value, named)
        elif isinstance(value, tuple):
            for number, entry in enumerate(value):
                if dataclasses.is_dataclass(entry):
                    check_fields(entry, f"{named}.{number}")


@functools.cache
def _hints(owner: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(owner, include_extras=True)


def check_image(setting: str, image: str | None) -> None:
    """Refuse what no registry calls an image; a token may be one.

    Raises:
        ConfigError: names `setting`.
    """
    if image is not None and "${Token[" not in image and not IMAGE.fullmatch(image):
        raise ConfigError(setting, image, IMAGE_FORM)


def _check(setting: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise ConfigError(setting, value, _words(hint))


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if hint is None or hint is types.NoneType:
        return value is None
    if origin is typing.Annotated:
        return _fits(value, inner[0]) and all(form.admits(value) for form in inner[1:])
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and ((entry == "" and inner[1] is str) or _fits(entry, inner[1]))
            for key, entry in value.items()
        )
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(_fits(entry, inner[0]) for entry in value)
    if hint is str:
        return isinstance(value, str) and value.strip() != ""
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return _is_one(value, hint)


def _is_one(value: Any, hint: Any) -> bool:
    """Whether it is of a class, or of an interface of jsii's, which no `isinstance` knows."""
    if not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    cls = type(value)
    if cls.__name__ == "InterfaceDynamicProxy":  # some object of the CDK's own that is of no public class
        return True
    proxy = getattr(hint, "__jsii_proxy_class__", None)
    interfaces = [entry for base in cls.__mro__ for entry in vars(base).get("__jsii_ifaces__", ())]
    return any(hint in entry.__mro__ for entry in (cls, *interfaces)) or (
        proxy is not None and isinstance(value, proxy())
    )


def _words(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is types.NoneType:
        return "None"
    if origin is typing.Annotated:
        return " and ".join(form.expected for form in inner[1:])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_words, inner)))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping, each value {_words(inner[1])}"
    if origin is not None:
        return f"a list, each entry {_words(inner[0])}"
    return _WORDS.get(hint) or f"an object of {hint.__module__.removesuffix('.__init__')}.{hint.__qualname__}"
