"""What the process of a function may do: its user, its capabilities, nothing it could gain."""

import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unis.runtime.errors import LaunchError

PATH = "/usr/local/bin:/usr/bin:/bin"  # of programs that run as another user


def account_of(user: str) -> pwd.struct_passwd:
    """LaunchError if there is none any more."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise LaunchError(f"there is no user `{user}` any more") from None


@dataclass(frozen=True)
class Rights:
    """Of a process, and of whatever it starts."""

    user: str | None = None  # None: root
    capabilities: Sequence[str] = ()  # as capabilities(7) has them, without CAP_
    folder: Path | None = None  # the user's own, for what DPDK makes at run time

    def before(self, env: Mapping[str, str]) -> list[str]:
        """Put before a command line that root starts. As another user the program gets `env` and
        nothing else; as root it has it already.
        """
        named = ",".join(["-all", *(f"+{name}" for name in self.capabilities)])
        return [
            "setpriv",
            *self._user(),
            f"--bounding-set={named}",
            f"--inh-caps={named}",
            # Root's are those of the bounding set; another user keeps what is ambient.
            *([f"--ambient-caps={named}"] if self.user else []),
            "--no-new-privs",
            "--",
            *self._environment(env),
        ]

    def _user(self) -> list[str]:
        if self.user is None:
            return []
        account = account_of(self.user)
        return [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]

    def _environment(self, env: Mapping[str, str]) -> list[str]:
        if self.user is None:
            return []
        home = account_of(self.user).pw_dir
        own = {"PATH": PATH, "HOME": home, "USER": self.user, "LOGNAME": self.user}
        if self.folder:
            own["XDG_RUNTIME_DIR"] = str(self.folder)
        return ["env", "-i", *(f"{key}={value}" for key, value in {**own, **env}.items())]
