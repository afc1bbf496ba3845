"""Names that stand for one thing each."""

from collections import Counter
from collections.abc import Iterable

from hypertier.errors import ConfigError


def check_unique(setting: str, names: Iterable[str]) -> None:
    """Refuse a name that stands twice.

    Raises:
        ConfigError: names `setting` and the first such name.
    """
    names = list(names)
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(setting, names, f"each name once; {name} stands there twice")
