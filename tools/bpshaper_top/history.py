# SPDX-License-Identifier: GPL-2.0-only
"""What each shaper has sent in the last samples, as a line."""

from __future__ import annotations

import locale
import os
from collections import deque
from typing import Deque, Dict, Iterable, Tuple

from .sample import Change

SAMPLES_MAX = 500  # more than a terminal has columns
ASCII, BLOCKS = " .:-=+*%#", " ▁▂▃▄▅▆▇█"


def steps_choose() -> str:
    """Blocks if the terminal shows them. The font of the console has few. Where
    the user has chosen no locale Python takes C.UTF-8 and says so in LC_CTYPE.
    """
    words = [
        os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")
    ]
    chosen = next(filter(None, words), "")
    is_taken = chosen == words[1] == "C.UTF-8"
    is_unicode = locale.nl_langinfo(locale.CODESET) == "UTF-8" and not is_taken
    return BLOCKS if is_unicode and os.environ.get("TERM") != "linux" else ASCII


class History:
    """Rates of each shaper, bytes/s."""

    def __init__(self, steps: str = ASCII) -> None:
        self.steps = steps
        self.rates: Dict[Tuple[str, str, str], Deque[float]] = {}

    def add(self, changes: Iterable[Change]) -> None:
        old, self.rates = self.rates, {}
        for change in changes:
            key = change.shaper.key()
            rates = old.get(key, deque(maxlen=SAMPLES_MAX))
            if change.sent_rate is not None:
                rates.append(change.sent_rate)
            self.rates[key] = rates

    def most(self, change: Change) -> float:
        """What the highest step is: the rate, or what was sent at most."""
        rates = self.rates.get(change.shaper.key(), ())
        return change.shaper.rate or max(rates, default=0)

    def line(self, change: Change, width: int) -> str:
        """The last samples that fit, the newest at the right."""
        most, last = self.most(change), len(self.steps) - 1
        rates = list(self.rates.get(change.shaper.key(), ()))[-max(width, 1) :]
        return "".join(
            self.steps[min(last, -int(-rate * last // most)) if most else 0]
            for rate in rates
        )
