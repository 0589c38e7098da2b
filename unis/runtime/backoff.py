"""How long a function that died waits before it is started again."""

from dataclasses import dataclass

FIRST, MOST = 0.1, 10.0  # seconds
STABLE = 30.0  # seconds: one that ran so long is as good as new


@dataclass
class Backoff:
    """Doubles with every death, till the function has run for a while."""

    seconds: float = 0.0

    def after(self, ran: float) -> float:
        """The wait after it ran so many seconds."""
        again = self.seconds > 0 and ran < STABLE
        self.seconds = min(MOST, 2 * self.seconds) if again else FIRST
        return self.seconds
