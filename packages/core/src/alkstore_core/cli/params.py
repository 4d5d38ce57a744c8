"""What people may write after a command, and what it becomes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from attrs import frozen
from click.core import ParameterSource

from alkstore_core import CodecError, decode_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    FloatParam = click.ParamType[float]
    IntParam = click.ParamType[int]
    PairParam = click.ParamType[tuple[str, str]]
    PastParam = click.ParamType["Past"]
else:
    # Releases of click before 8.4 have no type there.
    FloatParam = IntParam = PairParam = PastParam = click.ParamType

F = TypeVar("F", bound="Callable[..., Any]")

I64_MAX: Final = 2**63 - 1
_URL: Final = "alkstore_core.cli.url"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def typed_payload(data: bytes) -> Any:
    """Decode JSON that somebody has typed.

    Raises:
        CodecError: it is none; the shell has eaten its quotes, perhaps.

    """
    try:
        return decode_payload(data)
    except CodecError as error:
        hint = (
            """a payload is JSON, in the shell's quotes: '{"to": "ada"}', or '"ada"' for a text"""
        )
        raise CodecError(f"{error}; {hint}") from None


class Integer(IntParam):
    """A whole number that databases can store, within bounds that an error says in words."""

    name = "integer"

    def __init__(self, least: int = -(2**63), most: int = I64_MAX) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number", param, ctx)
        if not self._least <= number <= self._most:
            self.fail(f"{value} is out of range: it has to be {self._rule(number)}", param, ctx)
        return number

    def _rule(self, number: int) -> str:
        if self._most < I64_MAX:
            return f"from {self._least} to {self._most}"
        if number > self._most:
            return "below 2**63"
        return f"{self._least} or more" if self._least >= 0 else "-2**63 or more"


class Number(FloatParam):
    """A number within bounds that an error says in words."""

    name = "number"

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number", param, ctx)
        if not self._least <= number <= self._most:
            rule = f"from {self._least:g} to {self._most:g}"
            self.fail(f"{value} is out of range: it has to be {rule}", param, ctx)
        return number


I64: Final = Integer()
OFFSET: Final = Integer(0)
LIMIT: Final = Integer(1, 10_000)


class Seconds(IntParam):
    """`90`, `90s`, `15m`, `2h` or `7d`."""

    name = "duration"

    def __init__(self, *, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d{1,18})([smhd]?)", str(value), re.ASCII)
        if match is None or int(match[1]) * _UNITS[match[2]] > I64_MAX:
            self.fail(f"{value!r} is no duration: 90, 90s, 15m, 2h or 7d", param, ctx)
        seconds = int(match[1]) * _UNITS[match[2]]
        if seconds < self._least:
            self.fail(f"{value!r} is less than {self._least} s", param, ctx)
        return seconds


class Moment(IntParam):
    """Unix seconds or a time in ISO 8601."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The unix second."""
        if isinstance(value, int):
            return value
        text = str(value)
        if re.fullmatch(r"\d{1,18}", text, re.ASCII):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is no time: unix seconds, or 2026-01-31T12:00Z (UTC, if it does not "
                "say otherwise)",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp())


@frozen
class Past:
    """A unix second, or, with `ago`, so many seconds before it is used."""

    seconds: int
    ago: bool

    def at(self, now: int) -> int:
        """The unix second, where the store's time is `now`."""
        return now - self.seconds if self.ago else self.seconds


class PastMoment(PastParam):
    """What `Moment` takes, or a duration, which is so long ago: by whose clock is known later."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Past:
        """The moment, to be reckoned once the store is open."""
        if isinstance(value, Past):
            return value
        text = str(value)
        if re.fullmatch(r"\d{1,18}[smhd]", text, re.ASCII):
            return Past(Seconds().convert(text, param, ctx), ago=True)
        try:
            return Past(Moment().convert(text, param, ctx), ago=False)
        except click.BadParameter as error:
            self.fail(f"{error.message}, or 7d for seven days ago", param, ctx)


class Header(PairParam):
    """`name=value`."""

    name = "header"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The two halves."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is no header: write it as name=value", param, ctx)
        return name, text


def url_option(command: F) -> F:
    """`--url` behind the command, or else before it, or else the environment."""

    def nearest(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
            return value
        given = url_before(ctx)
        return value if given is None else given

    return click.option(
        "--url",
        envvar="ALKSTORE_URL",
        show_envvar=True,
        metavar="URL",
        callback=nearest,
        help="The database, such as sqlite:///app.db or postgresql://host/name.",
    )(command)


def url_option_before(group: F) -> F:
    """`--url` of the command as a whole, for whichever part of it follows."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        # Click shares what is in there with the contexts below.
        ctx.meta[_URL] = value

    return click.option(
        "--url",
        metavar="URL",
        callback=keep,
        expose_value=False,
        help="The database, for the command that follows; its own --url wins.",
    )(group)


def url_before(ctx: click.Context) -> str | None:
    """What `--url` before the command said."""
    given: str | None = ctx.meta.get(_URL)
    return given


def json_option(command: F) -> F:
    """`--json`."""
    return click.option("as_json", "--json", is_flag=True, help="JSON, for scripts.")(command)


def outbox_option(command: F) -> F:
    """`--outbox`."""
    return click.option("--outbox", is_flag=True, help="The name is that of an outbox.")(command)


def yes_option(command: F) -> F:
    """`--yes`."""
    return click.option("--yes", is_flag=True, help="Do not ask.")(command)


def _once_each(
    ctx: click.Context, param: click.Parameter, headers: Sequence[tuple[str, str]]
) -> Sequence[tuple[str, str]]:
    """Of two values of one name one would be dropped."""
    for name, times in Counter(name for name, _ in headers).items():
        if times > 1:
            raise click.BadParameter(
                f"{name!r} is given {times} times: a name has one value", ctx, param
            )
    return headers


def header_option(command: F) -> F:
    """`--header`."""
    return click.option(
        "headers",
        "--header",
        type=Header(),
        multiple=True,
        callback=_once_each,
        metavar="NAME=VALUE",
        help="Repeatable, each name once.",
    )(command)
