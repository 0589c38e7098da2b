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

    @property
    def environment(self) -> dict[str, str]:
        """What another user's program is told of its user; nothing of root's."""
        if self.user is None:
            return {}
        home = account_of(self.user).pw_dir
        own = {"HOME": home, "USER": self.user, "LOGNAME": self.user}
        return {**own, **({"XDG_RUNTIME_DIR": str(self.folder)} if self.folder else {})}

    def before(self, env: Mapping[str, str]) -> list[str]:
        """Put before a command line that root starts. As another user the program gets `env` and
        nothing else; as root it has it already.
        """
        named = ",".join(["-all", *(f"+{name}" for name in self.capabilities)])
        # Root's capabilities are those of the bounding set; another user keeps what is ambient.
        limits = [f"--bounding-set={named}", f"--inh-caps={named}", "--no-new-privs"]
        if self.user is None:
            return ["setpriv", *limits, "--"]
        account = account_of(self.user)
        limits += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
        own = {"PATH": PATH, **self.environment, **env}
        words = [f"{key}={value}" for key, value in own.items()]
        return ["setpriv", *limits, f"--ambient-caps={named}", "--", "env", "-i", *words]
