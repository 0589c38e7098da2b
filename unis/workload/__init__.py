"""Kinds of programs, a module each. To add one: its module, and a line here."""

from unis.workload.kind import Workload
from unis.workload.primary import Primary
from unis.workload.secondary import Secondary

KINDS: dict[str, Workload] = {kind.group: kind for kind in (Secondary(), Primary())}
