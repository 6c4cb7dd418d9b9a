"""A table to a file and back by its suffix."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError, reason, to_install
from tcptrace_lab.whole_files import replacing

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".json")


def finite(value: Any) -> Any:
    """What JSON can say of it: it has no number for "none" and for "without limit"."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The table suffix of a path; an unknown one is refused with the known."""
    name = Path(path).name
    found = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    if found is None:
        raise LabError(f"{path}: the suffix must be one of {', '.join(SUFFIXES)}")
    if found == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise LabError(f"{path}: Parquet needs pyarrow; type:  {to_install('pyarrow')}")
    return found


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, before the work whose result is to go there."""
    target = Path(path)
    if target.is_dir():
        raise LabError(f"{path}: Is a directory")
    if not target.absolute().parent.is_dir():
        raise LabError(f"{path}: No such directory")
    if not os.access(target if target.exists() and not target.is_file() else target.absolute().parent, os.W_OK):
        raise LabError(f"{path}: Permission denied")


def check_table(path: str | os.PathLike[str]) -> None:
    """The same, and a suffix that no table has."""
    suffix_of(path)
    check_output(path)


def write_answer(answer: object, rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """What a command's --json prints to a .json; to every other suffix its flat rows."""
    if suffix_of(path) == ".json":
        with replacing(path) as temporary:
            temporary.write_text(_core.json_text(answer) + "\n")
    else:
        write_table(rows, path)


def flat(answers: list[dict[str, Any]]) -> pd.DataFrame:
    """A row for each answer with a column for each key (`slow_starts.count`)."""
    import pandas as pd

    frame = pd.json_normalize(answers)
    for name in frame.columns:
        # A list has no cell of its own.
        if frame[name].map(lambda value: isinstance(value, (list, dict))).any():
            frame[name] = frame[name].map(lambda value: json.dumps(value, allow_nan=False))
    return frame


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a DataFrame by the suffix of the path."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        with replacing(path) as temporary:
            frame.to_parquet(temporary, index=False)
    elif suffix == ".json":
        with replacing(path) as temporary:
            # A list of rows; what is not a number is null.
            frame.to_json(temporary, orient="records", double_precision=15)
    else:
        with appending(path) as append:
            # Of a table without a column pandas would write an empty line.
            if not frame.columns.empty:
                append(frame)


@contextlib.contextmanager
def appending(path: str | os.PathLike[str]) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Write a table to .csv, .csv.gz or .parquet piece by piece: what is held is a piece (Parquet: a row group)."""
    suffix = suffix_of(path)
    with replacing(path) as temporary:
        of_kind = _parquet(temporary) if suffix == ".parquet" else _csv(temporary, is_packed=suffix == ".csv.gz")
        with of_kind as append:
            yield append


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    out: Any = None
    with contextlib.ExitStack() as stack:

        def append(frame: pd.DataFrame) -> None:
            nonlocal out
            import pyarrow
            from pyarrow.parquet import ParquetWriter

            # Later pieces have the first one's types; a column of which it has no value is one of text.
            schema = None if out is None else out.schema
            table = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if out is None:
                for at, field in enumerate(table.schema):
                    if pyarrow.types.is_null(field.type):
                        text = field.with_type(pyarrow.string())
                        table = table.set_column(at, text, table.column(at).cast(text.type))
                out = stack.enter_context(ParquetWriter(path, table.schema))
            out.write_table(table)

        yield append
        if out is None:
            path.touch()


@contextlib.contextmanager
def _csv(path: Path, *, is_packed: bool) -> Iterator[Callable[[pd.DataFrame], None]]:
    is_first = True
    with open(path, "wb") as file, contextlib.ExitStack() as stack:
        # No name and no time in the header: the same table gives the same bytes.
        out: Any = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0)) if is_packed else file

        def append(frame: pd.DataFrame) -> None:
            nonlocal is_first
            frame.to_csv(out, index=False, header=is_first)
            is_first = False

        yield append


def read_table(path: str | os.PathLike[str], *, text: tuple[str, ...] = ()) -> pd.DataFrame:
    """Read a table by the suffix of the path; columns whose names begin with one of `text` are text, also in CSV."""
    import pandas as pd

    suffix = suffix_of(path)
    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        if suffix == ".json":
            return pd.read_json(path, orient="records", dtype=False, precise_float=True)
        names = pd.read_csv(path, nrows=0).columns
        kinds = {name: str for name in names if name.startswith(text)} if text else None
        # A column whose type is only known at its end (words after many empty cells) is read whole.
        frame = pd.read_csv(path, dtype=kinds, low_memory=False)
        for name in names:
            if text and name.startswith(text):
                frame[name] = frame[name].fillna("")
        return frame
    except OSError as error:
        raise LabError(f"{path}: {reason(error)}") from error
    except ValueError as error:
        raise LabError(f"{path}: not a {suffix} table: {' '.join(str(error).split())}") from error
