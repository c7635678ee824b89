import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import pathlib
import typing
import unittest
import uuid

from millrace import ArtifactSerializationError, File, TaskFailedError
from millrace._arguments import fill, from_mapping, parameters
from millrace._typed import hints
from millrace._values import encode


class Color(enum.Enum):
    RED = "red"
    DAY = dt.date(2026, 1, 2)


class Level(str, enum.Enum):
    LOW = "low"


@dataclasses.dataclass
class Row:
    day: dt.date
    price: decimal.Decimal
    tags: typing.Set[str] = dataclasses.field(default_factory=set)
    parent: "typing.Optional[Row]" = None


class Point(typing.NamedTuple):
    x: int
    at: dt.date


class Options(typing.TypedDict, total=False):
    since: dt.datetime
    n: int


UserId = typing.NewType("UserId", uuid.UUID)
ID = uuid.UUID(int=7)


class numpy_scalar:
    """As numpy's scalars are, of which the standard library has none."""

    __module__ = "numpy"

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


def takes(hint):
    def task(value):
        return value

    task.__annotations__ = {"value": hint}
    return task


def received(value, hint):
    """Send a value as a task does, and take it as an argument of a type."""
    sent = json.loads(encode(value))
    task = takes(hint)
    args, kwargs = fill(parameters(task), (from_mapping({"value": sent}),), "load", hints(task), True)
    return task(*args, **kwargs)


class RoundTrip(unittest.TestCase):
    def test_round_trip_by_annotation(self):
        now = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)
        row = Row(dt.date(2026, 1, 2), decimal.Decimal("1.10"), {"a", "b"}, Row(dt.date(2026, 1, 3), decimal.Decimal("-2")))
        for value, hint, sent in (
            (dt.date(2026, 1, 2), dt.date, "2026-01-02"),
            (now, dt.datetime, "2026-01-02T03:04:05.000006+00:00"),
            (dt.time(1, 2), dt.time, "01:02:00"),
            (dt.timedelta(minutes=2), dt.timedelta, 120.0),
            (decimal.Decimal("1.10"), decimal.Decimal, "1.10"),
            (ID, uuid.UUID, str(ID)),
            (UserId(ID), UserId, str(ID)),
            (pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath, "a/b"),
            (b"\x00\xff", bytes, "AP8="),
            ({3, 1, 2}, typing.Set[int], [1, 2, 3]),
            (frozenset("ba"), frozenset, ["a", "b"]),
            ((1, dt.date(2026, 1, 2)), typing.Tuple[int, dt.date], [1, "2026-01-02"]),
            ((1, 2), typing.Tuple[int, ...], [1, 2]),
            (Color.RED, Color, "red"),
            (Color.DAY, Color, "2026-01-02"),
            (Level.LOW, Level, "low"),
            (Point(1, dt.date(2026, 1, 2)), Point, [1, "2026-01-02"]),
            ({"since": now, "n": 1}, Options, {"since": "2026-01-02T03:04:05.000006+00:00", "n": 1}),
            ([dt.date(2026, 1, 2)], typing.List[dt.date], ["2026-01-02"]),
            ({"a": dt.date(2026, 1, 2)}, typing.Dict[str, dt.date], {"a": "2026-01-02"}),
            (None, typing.Optional[dt.date], None),
            (dt.date(2026, 1, 2), typing.Optional[dt.date], "2026-01-02"),
            ("soon", typing.Union[dt.date, str], "soon"),
            (dt.date(2026, 1, 2), typing.Union[dt.date, str], "2026-01-02"),
            (dt.date(2026, 1, 2), typing.Annotated[dt.date, "day"], "2026-01-02"),
            (row, Row, None),
            ([row], typing.List[Row], None),
            (File("k", "a.csv", 3), File, {"$file": {"key": "k", "name": "a.csv", "size": 3}}),
            ([File("k", "a.csv", 3)], typing.Any, None),
        ):
            with self.subTest(hint=hint, value=value):
                if sent is not None:
                    self.assertEqual(json.loads(encode(value)), sent)
                got = received(value, hint)
                self.assertEqual(got, value)
                self.assertEqual(type(got), type(value))

    def test_nan_is_null_with_warning(self):
        told = []
        data = encode({"rows": [1.5, math.nan], "x": math.nan}, warn=told.append)
        self.assertEqual(json.loads(data), {"rows": [1.5, None], "x": None})
        self.assertEqual(told, ["the output.rows[1] and 1 more places: NaN became null, for JSON has none"])
        task = takes(typing.List[float])
        _, kwargs = fill(parameters(task), (from_mapping({"value": [1, None]}),), "t", hints(task))
        self.assertEqual(kwargs["value"][0], 1.0)
        self.assertTrue(math.isnan(kwargs["value"][1]))

    def test_numpy(self):
        self.assertEqual(encode({"n": numpy_scalar(3), "list": numpy_scalar([1, 2.5])}), b'{"n":3,"list":[1,2.5]}')

    def test_values_are_not_changed(self):
        value = {"days": [dt.date(2026, 1, 2)], "n": 1}
        encode(value)
        self.assertEqual(value, {"days": [dt.date(2026, 1, 2)], "n": 1})

    def test_mismatch_names_argument(self):
        for value, hint, want in (
            ("2026-13-01", dt.date, "the argument 'value' is '2026-13-01', which is no date"),
            (["x"], typing.List[decimal.Decimal], r"the argument 'value\[0\]' is 'x', which is no Decimal"),
            ({"day": "x", "price": "1"}, Row, "the argument 'day' is 'x', which is no date"),
            ({"day": "2026-01-02", "price": "1", "nope": 1}, Row, "no Row: it has no field nope"),
            ([1, 2], typing.Tuple[int, int, int], "has 2 elements, not 3"),
            ("green", Color, "no Color"),
            (3, bytes, "no bytes"),
        ):
            with self.subTest(want), self.assertRaisesRegex(TaskFailedError, "task 'load': .*" + want):
                received(value, hint)

    def test_recursive_types(self):
        row = Row(dt.date(2026, 1, 2), decimal.Decimal(1))
        row.parent = row
        with self.assertRaisesRegex(ArtifactSerializationError, "contains itself"):
            encode(row)

    def test_text_annotations_and_missing_names(self):
        scope = {"dt": dt, "__name__": __name__}
        exec("def f(day: 'dt.date', other: 'Missing', n: int = 1): return day", scope)
        found = hints(scope["f"])
        self.assertEqual(set(found) & {"n"}, set())
        args, kwargs = fill(parameters(scope["f"]), (from_mapping({"day": "2026-01-02", "other": 1}),), "t", found)
        self.assertEqual(kwargs["other"], 1)

    def test_json_annotations_are_skipped(self):
        def f(ctx, a: str, b: int, c: dict, d: "list"):
            pass

        self.assertEqual(hints(f), {})
