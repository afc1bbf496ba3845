"""A text in both languages of `hypertier lint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "ko"]


@dataclass(frozen=True, slots=True)
class Said:
    """A value of a message that differs between the languages."""

    en: str
    ko: str

    def in_language(self, language: Language) -> str:
        """The text that is for readers of `language`."""
        return self.ko if language == "ko" else self.en
