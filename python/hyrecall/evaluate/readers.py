"""Reads retrieval sets in the forms in which they are distributed, into a :class:`Dataset`.

The contents of the files say which form a set has; docs/evaluation.md lists the forms.
"""

from __future__ import annotations

import codecs
import gzip
import html
import inspect
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hyrecall.base.arguments import check_objects, read_path
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.compare import MEASURES, OF_MEMORIES
from hyrecall.evaluate.data import CELL, VECTOR, Dataset

Place: TypeAlias = Path | zipfile.Path
Row: TypeAlias = dict[str, Any]
Unit: TypeAlias = Literal["sessions", "turns"]
Role: TypeAlias = Literal["user", "assistant"]


class Form(NamedTuple):
    """A form in which sets are distributed."""

    name: str
    fits: Callable[[Place], bool]
    read: Callable[..., Dataset]  # its keywords are those options of load_dataset that it has
    measures: tuple[str, ...] = MEASURES


@check_objects
def load_dataset(
    path: str | Path,
    *,
    qrels: str | Path | None = None,
    unit: Unit | None = None,
    role: Role | None = None,
    abstention: bool = False,
) -> Dataset:
    """Read a retrieval set.

    The contents say which form it has: ``corpus`` and ``queries`` (.parquet or .jsonl) with
    ``qrels.tsv``, the folders or .zip files of BEIR, the folders of MTEB and of LMEB, folders with
    the documents, topics and judgements of TREC, or a .json file of LongMemEval.

    Parameters
    ----------
    path : path-like
        A file or folder. ``SET/PART`` names a part of a set that has ``PART-corpus`` and so on.
    qrels : path-like, optional
        Another file of judgements, relative to the folder.
    unit : {"sessions", "turns"}, default "sessions"
        The documents of LongMemEval. A session is right if it is among ``answer_session_ids``, a
        turn if its ``has_answer`` is true.
    role : {"user", "assistant"}, optional
        Read only the turns of one side of LongMemEval.
    abstention : bool, default False
        Keep the questions of LongMemEval that the sessions do not answer.

    Raises
    ------
    OptionError, DTypeError
        No known form, an option that the form does not have, or a missing or wrong file, column or
        value; the message names file and line. Judgements and classes may name only queries and
        documents of the set, but for one judgement in a hundred, and any of TREC, whose document
        the set lacks: it counts as never found.
    """
    place = _place(read_path(path))
    form = form_of(place)
    given = {"qrels": qrels, "unit": unit, "role": role, "abstention": abstention or None}
    known = given.keys() & inspect.signature(form.read).parameters
    for name, value in given.items():
        if value is not None and name not in known:
            raise error(OptionError, name, f"none with a set of {form.name}", repr(value))
    return form.read(place, **{name: given[name] for name in known})


def form_of(path: Place) -> Form:
    """Return the form that a file or folder has."""
    place = _place(read_path(path)) if isinstance(path, Path) else path
    for form in FORMS:
        if form.fits(place):
            return form
    if _files(place, "corpus") or _files(place, "queries"):
        return _TABLES  # whose reader names what is missing
    wish = (
        "a .json file of LongMemEval, or a folder or .zip file with corpus, queries and qrels "
        "(BEIR, MTEB, LMEB) or with documents, topics and qrels of TREC"
    )
    raise error(OptionError, str(path), wish, _content(place))


def _place(path: Path) -> Place:
    """Return a path, of a .zip file the only folder in it."""
    for at in (path, *path.parents):
        if at.is_file() and zipfile.is_zipfile(at):
            inside = path.relative_to(at).as_posix()
            place = zipfile.Path(at, "" if inside == "." else f"{inside}/")
            folders = [one for one in place.iterdir() if one.is_dir() and one.name[:2] != "__"]
            return folders[0] if len(folders) == 1 and not _files(place, "corpus") else place
    return path


def _content(place: Place) -> str:
    """Say what is at a place, for a message."""
    if not place.is_dir():
        return "another file" if place.is_file() else "no such file or folder"
    names = sorted(one.name for one in place.iterdir())
    return f"a folder with {', '.join(names[:8]) or 'nothing'}{', ...' * (len(names) > 8)}"


# ---- Rows of files: JSON lines, Parquet, pairs in lines ----

_TEXTS = ("id", "title", "text")
_IDS = {"id", "_id"}
_KINDS = (".parquet", ".jsonl", ".jsonl.gz")
_HEAD = 1 << 16  # bytes that say what a file holds
_AT_ONCE = 8192  # rows as Python objects
_NUMBER = r"[+-]?\d+(\.\d*)?"
# Errors of files that cannot be opened, or whose compressed bytes are damaged or cut off.
_UNREADABLE = (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile)


def _files(folder: Place, name: str, *, above: bool = False) -> list[Place]:
    """Return the files of a part of a set: ``name.jsonl`` and so on, or those of a folder.

    Of a folder with several splits, that is ``test``. ``above``: or those beside the folder.
    """
    beside = cast("Place", folder.parent)
    own = (folder, name) if folder.exists() else (beside, f"{folder.name}-{name}")
    for parent, stem in (own, *([(beside, name)] if above else [])):
        inside = parent / stem
        found = [one for kind in _KINDS if (one := parent / f"{stem}{kind}").is_file()]
        if not found and inside.is_dir():
            found = [one for one in inside.iterdir() if one.name.endswith(_KINDS)]
            found = sorted([one for one in found if _split(one) == "test"] or found, key=str)
        if found:
            return found
    return []


def _split(path: Place) -> str:
    return path.name.partition("-")[0].partition(".")[0]


@contextmanager
def _open(path: Place) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if path.name.endswith(".gz") else file
    except _UNREADABLE as fault:
        raise error(DTypeError, str(path), "a file that can be read", fault) from None


def _head(path: Path) -> bytes:
    with _open(path) as file:
        return bytes(file.read1(_HEAD)).removeprefix(codecs.BOM_UTF8)


def _lines(path: Place) -> Iterator[tuple[str, bytes]]:
    """Yield the lines that are not blank, each with its place for messages."""
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            content = line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
            if content.strip():
                yield f"{path} line {number}", content


def _table(rows: Iterable[Row], where: str) -> pa.Table:
    """Return rows as a table, batch by batch; what a row lacks is null there."""
    tables, left, name = [], iter(rows), ""
    kinds: dict[str, Any] = dict.fromkeys(_TEXTS, pa.string())
    try:
        while batch := list(islice(left, _AT_ONCE)):
            columns: dict[str, pa.Array] = {}
            for name in {name: None for row in batch for name in row}:
                values = [row.get(name) for row in batch]
                if name == VECTOR and (dim := next((len(one) for one in values if one), 0)):
                    kinds[VECTOR] = pa.list_(pa.float32(), dim)
                columns[name] = pa.array(values, kinds.get(name))
            tables.append(pa.table(columns))
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except (pa.ArrowException, OverflowError, UnicodeError) as fault:
        wish = "values of one type that Arrow can store"
        raise error(DTypeError, f"{where}: {name}", wish, fault) from None


def _read_part(folder: Place, name: str, *, above: bool = False) -> pa.Table:
    """Read a part of a set as a table with string ``id``, ``text``, ``title``."""
    files = _files(folder, name, above=above)
    if not files or (len(files) > 1 and files[0].parent == folder):
        wish = f"a folder with either {name}.parquet or {name}.jsonl"
        got = "both" if files else f"neither, {_content(folder)}"
        raise error(OptionError, str(folder), wish, got)
    path = files[0]
    table = pa.concat_tables(map(_read_table, files), promote_options="permissive")
    if "id" not in table.column_names and "_id" in table.column_names:
        table = table.rename_columns({"_id": "id"})
    for column in ("id", "text"):
        if column not in table.column_names:
            raise error(OptionError, str(path), f"a column {column!r}", table.column_names)
    for at, column in enumerate(table.column_names):
        if column in _TEXTS:
            table = table.set_column(at, column, _as_text(path, column, table[column]))
    if table["id"].null_count:
        row = table["id"].is_null().to_pylist().index(True) + 1
        raise error(DTypeError, f"{path} row {row}", "an id", "null")
    own = (CELL,) if name == "corpus" and CELL in table.column_names else ()
    return _once(table, f"{folder}: {name}", *own)


def _once(table: pa.Table, where: str, *cell: str) -> pa.Table:
    """Check that no id occurs twice, in one cell if there are cells."""
    counts = table.group_by(["id", *cell]).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()
    for one in repeated:
        raise error(OptionError, where, "each id once", f"{one['id']!r} {one['count_all']} times")
    return table


def _as_text(path: Place, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to strings; only ids may be integers."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    fits = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if not fits and not (column == "id" and pa.types.is_integer(kind)):
        raise error(DTypeError, str(path), f"text in column {column!r}", kind)
    return values.cast(pa.string())


def _read_table(path: Place) -> pa.Table:
    if not path.name.endswith(".parquet"):
        return _table(_objects_of(path), str(path))
    try:
        return pq.read_table(path if isinstance(path, Path) else pa.BufferReader(path.read_bytes()))
    except (pa.ArrowException, *_UNREADABLE) as fault:
        raise error(DTypeError, str(path), "a Parquet file", fault) from fault


def _objects_of(path: Place) -> Iterator[Row]:
    """Yield one JSON object per line."""
    needed: set[str] = set()
    dim = 0  # of the first vector
    for where, line in _lines(path):
        row = _read_object(where, line, needed, dim)
        needed = needed or row.keys() & _IDS
        dim = dim or len(row.get(VECTOR) or ())
        yield row


def _read_object(where: str, line: bytes, needed: set[str], dim: int) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise error(DTypeError, where, "a JSON object", fault) from None
    if not isinstance(row, dict):
        raise error(DTypeError, where, "a JSON object", type(row).__name__)
    for name in needed | row.keys() & {*_TEXTS, *_IDS}:
        kinds: tuple[type, ...] = (str, int) if name in _IDS else (str, type(None))
        value = row.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            wish = f"{name!r} as {' or '.join(kind.__name__ for kind in kinds)}"
            raise error(DTypeError, where, wish, repr(value))
        row[name] = None if value is None else str(value)
    vector = row.get(VECTOR)
    numbers = isinstance(vector, list) and all(type(one) in (int, float) for one in vector)
    if vector is not None and not (numbers and len(vector) == (dim or len(vector))):
        wish = f"{VECTOR!r} as a list of {dim or 'some'} numbers"
        raise error(DTypeError, where, wish, repr(vector))
    # BEIR's ``metadata``, whose keys differ from line to line.
    return {name: value for name, value in row.items() if not isinstance(value, dict)}


def _fields(path: Place, n_fields: int, ids: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a TSV, except a header: the place, for messages, and the fields."""
    for number, (where, line) in enumerate(_lines(path)):
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as fault:
            raise error(DTypeError, where, "UTF-8", fault) from None
        fields = [one.strip() for one in (text.split("\t") if "\t" in text else text.split())]
        if len(fields) == 4:  # of TREC: query, iteration, document, grade
            fields = [fields[0] if fields[0] in ids else _number(fields[0]), *fields[2:]]
        if len(fields) != n_fields or not all(fields):
            raise error(DTypeError, where, f"{n_fields} fields separated by tabs", repr(text))
        # A first line is a header unless it begins with an id or ends in a number.
        if number or fields[0] in ids or re.fullmatch(_NUMBER, fields[-1]):
            yield where, fields


def _rows(path: Place, *needed: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table with the needed columns, each with its place for messages."""
    table = _read_table(path)
    if not {*needed} <= {*table.column_names}:
        raise error(OptionError, str(path), f"columns {', '.join(needed)}", table.column_names)
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"{path} row {number}", row


# ---- Judgements ----

_MOST_LACKING = 0.01  # of the judgements; one of the 1,406 of BEIR's ArguAna has no document
_GRADES = range(-100, 1001)  # ir-measures' memory grows with the largest grade


def _judgements(
    path: Place, queries: set[str], known: set[str] | None
) -> dict[str, dict[str, int]]:
    """Read the grades of documents by query; ``known``: the documents that they may name."""
    judgements: dict[str, dict[str, int]] = {}
    lacking: list[tuple[str, str]] = []
    n_read = 0
    for where, (query, document, given) in _pairs(path, queries):
        _check_known(where, "a query of the set", query, queries)
        n_read += 1
        if known is not None and document not in known:
            lacking.append((where, document))
        grades = judgements.setdefault(query, {})
        if document in grades:
            raise error(OptionError, where, "each pair once", f"({query}, {document}) again")
        grades[document] = _grade(where, given)
    if len(lacking) > _MOST_LACKING * n_read:  # else they count as never found
        where, document = lacking[0]
        raise error(OptionError, where, "a document of the set", repr(document))
    return judgements


def _pairs(path: Place, queries: set[str]) -> Iterator[tuple[str, Iterable[str]]]:
    if not path.name.endswith(_KINDS):
        yield from _fields(path, 3, queries)
        return
    for where, row in _rows(path, "query-id", "corpus-id"):
        yield where, (str(row["query-id"]), str(row["corpus-id"]), str(row.get("score", 1)))


def _classes(path: Place, known: set[str]) -> dict[str, str]:
    classes: dict[str, str] = {}
    for where, (document, name) in _fields(path, 2, known):
        _check_known(where, "a document of the set", document, known)
        if document in classes:
            raise error(OptionError, where, "each document once", f"{document!r} again")
        classes[document] = name
    return classes


def _check_known(where: str, wish: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise error(OptionError, where, wish, repr(name))


def _grade(where: str, given: str) -> int:
    if re.fullmatch(_NUMBER, given) is None or float(given) not in _GRADES:
        wish = f"a whole grade in [{_GRADES[0]}, {_GRADES[-1]}]"
        raise error(DTypeError, where, wish, repr(given))
    return int(float(given))


# ---- Corpus, queries and judgements as tables: BEIR, MTEB, LMEB ----


def _has_tables(place: Place) -> bool:
    return bool(_files(place, "corpus", above=True) and _files(place, "queries"))


def _read_tables(folder: Place, *, qrels: str | Path | None) -> Dataset:
    corpus = _read_part(folder, "corpus", above=True)
    queries = _read_part(folder, "queries")
    known = set(corpus["id"].to_pylist())
    asked = set(queries["id"].to_pylist())
    judgements: dict[str, dict[str, int]] = {}
    for path in _find_judgements(folder, qrels):
        judgements |= _judgements(path, asked, known)
    classes = folder / "classes.tsv"
    name = folder.resolve().name if isinstance(folder, Path) else folder.name
    dataset = Dataset(
        name, corpus, queries, judgements, _classes(classes, known) if classes.is_file() else None
    )
    found = _candidates(folder, dataset.judged["id"].to_pylist())
    return _in_cells(dataset, found) if found else dataset


def _find_judgements(folder: Place, qrels: str | Path | None) -> list[Place]:
    names = ("qrels.tsv", "qrels/test.tsv") if qrels is None else (str(qrels),)
    found = [one for name in names if (one := folder / name).is_file()][:1]
    if qrels is None:  # MTEB's configuration "default" lies in a folder data
        found = found or _files(folder, "qrels") or _files(folder, "data")
    if not found:
        wish = f"a file {' or '.join(names)}"
        raise error(OptionError, str(folder), wish, f"none, {_content(folder)}")
    if len({_split(path) for path in found}) > 1:
        raise error(OptionError, "qrels", "one of the splits", [path.name for path in found])
    return found


_CANDIDATES = (  # LMEB: by scene; MTEB
    ("candidates", "scene_id", "candidate_doc_ids"),
    ("top_ranked", "query-id", "corpus-ids"),
)


def _candidates(folder: Place, queries: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the documents that each query may find; nothing if the set does not say so."""
    found: dict[str, tuple[str, ...]] = {}
    for part, name, names in _CANDIDATES:
        for path in _files(folder, part, above=True):
            for where, row in _rows(path, name, names):
                if not isinstance(row[names], list):
                    raise error(DTypeError, where, f"a list in {names!r}", repr(row[names]))
                found[str(row[name])] = tuple(map(str, row[names]))
    scene_of = {one: "_".join(one.split("_")[:2]) for one in queries}  # of LMEB
    return {one: found.get(one, found.get(scene_of[one], ())) for one in queries if found}


def _in_cells(dataset: Dataset, candidates: Mapping[str, tuple[str, ...]]) -> Dataset:
    """Give queries with the same candidates a cell with its own copy of these documents."""
    cells: dict[tuple[str, ...], str] = {}
    asked, judged = [], dataset.judged
    for query in judged["id"].to_pylist():
        if not (own := candidates.get(query)):
            where = f"{dataset.name}: query {query!r}"
            raise error(OptionError, where, "candidates, as of other queries", "none")
        asked.append(cells.setdefault(own, query))
    row_of = {name: row for row, name in enumerate(dataset.corpus["id"].to_pylist())}
    pairs = [
        (cell, row_of[name])
        for documents, cell in cells.items()
        for name in dict.fromkeys(documents)
        if name in row_of
    ]
    corpus = dataset.corpus.take(pa.array([row for _, row in pairs], pa.int64()))
    return replace(
        dataset,
        corpus=corpus.append_column(CELL, pa.array([cell for cell, _ in pairs], pa.string())),
        queries=judged.append_column(CELL, pa.array(asked, pa.string())),
    )


# ---- Documents, topics and judgements of TREC ----

_ID = re.compile(
    r"<DOCNO>\s*(\S+)\s*</DOCNO>|(?:<num>\s*(?:Number:)?|<topic\s[^>]*number=[\"'])\s*([^\s<\"']+)",
    re.IGNORECASE,
)
_TOPIC_TEXTS = tuple(
    re.compile(rf"<(?:{tags})>\s*(?:Topic:|Description:)?([^<]*\w[^<]*)", re.IGNORECASE)
    for tags in ("title|query", "desc|description|question")
)
_TITLE = re.compile(r"<(TITLE|HEADLINE|HEAD|HL|TTL)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_BODY = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_LEFT_OUT = re.compile(r"<(DOCNO|DOCID|DOCHDR)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z!][^>]*>")
# MS MARCO: a passage has its own id in ``pid``, that of its document in ``docid``.
_NAMES = (
    ("pid", "id", "_id", "docno", "docid", "doc_id"),
    ("title",),
    ("text", "contents", "body", "segment", "passage"),
)


def _trec_files(place: Place) -> dict[str, list[Path]]:
    """Return the files of a folder by what they hold: documents, topics, qrels."""
    found: dict[str, list[Path]] = {"documents": [], "topics": [], "qrels": []}
    if isinstance(place, Path) and place.is_dir():
        for path in sorted(one for one in place.rglob("*") if one.is_file()):
            found.setdefault(_kind_of(path), []).append(path)
    return found


def _kind_of(path: Path) -> str:
    head = _head(path).decode("latin-1")
    if "\0" in head:
        return "other"
    if (found := _ID.search(head)) and found[1]:
        return "documents"
    if re.search(r"<top>|<topic\b", head, re.IGNORECASE):
        return "topics"
    line = head.partition("\n")[0]
    if re.fullmatch(r"\S+\s+\S+\s+\S+\s+-?\d+\s*", line):
        return "qrels"
    if line.startswith("{") or "\t" in line:
        return "topics" if re.search("quer|topic", path.name, re.IGNORECASE) else "documents"
    return "other"


def _is_trec(place: Place) -> bool:
    found = _trec_files(place)
    return all(found[kind] for kind in ("documents", "topics", "qrels"))


def _read_trec(folder: Path, *, qrels: str | Path | None) -> Dataset:
    found, where = _trec_files(folder), str(folder)
    read = partial(_records, end="</DOC>", read=_document)
    corpus = _once(_table(chain.from_iterable(map(read, found["documents"])), where), where)
    read = partial(_records, end="</top(?:ic)?>", read=_topic)
    queries = _once(_table(chain.from_iterable(map(read, found["topics"])), where), where)
    judged = found["qrels"] if qrels is None else [folder / qrels]
    if len(judged) > 1:
        names = [str(path.relative_to(folder)) for path in judged]
        raise error(OptionError, "qrels", "one of the files of judgements", names)
    judgements = _judgements(judged[0], set(queries["id"].to_pylist()), None)
    return Dataset(folder.resolve().name, corpus, queries.select(["id", "text"]), judgements)


def _records(path: Path, *, end: str, read: Callable[[str, str], Row]) -> Iterator[Row]:
    """Yield the documents or topics of a file: one per line, or in SGML if it begins with a tag."""
    held, is_sgml = "", None
    for where, line in _lines(path):
        is_sgml = line.lstrip()[:1] == b"<" if is_sgml is None else is_sgml
        if not is_sgml:
            yield _record_of_line(where, line)
            continue
        text = _text(line)
        held += text
        if re.search(end, text, re.IGNORECASE):
            *texts, held = re.split(end, held, flags=re.IGNORECASE)
            yield from (read(where, one) for one in texts)
    if _ID.search(held):
        raise error(DTypeError, str(path), f"{end} at the end", repr(held[-80:]))


def _id_of(where: str, text: str) -> str:
    found = _ID.search(text)
    if found is None:
        raise error(DTypeError, where, "<DOCNO>, or the number of a topic", repr(text[:80]))
    return found[1] or _number(found[2])


def _document(where: str, text: str) -> Row:
    title = _TITLE.search(text)
    bodies = _BODY.findall(text) or [_LEFT_OUT.sub(" ", _TITLE.sub(" ", text, count=1))]
    return {
        "id": _id_of(where, text),
        "title": _plain(title[2]) if title else None,
        "text": _plain(" ".join(bodies)),
    }


def _topic(where: str, text: str) -> Row:
    found = next((one for kind in _TOPIC_TEXTS if (one := kind.search(text))), None)
    if found is None:
        wish = "a topic with a title, query or description"
        raise error(DTypeError, where, wish, repr(text[:80]))
    return {"id": _id_of(where, text), "text": _plain(found[1])}


def _record_of_line(where: str, line: bytes) -> Row:
    if line[:1] == b"{":
        row = _read_object(where, line, set(), 0)
        name, title, text = (
            next((str(row[name]) for name in names if isinstance(row.get(name), str | int)), None)
            for names in _NAMES
        )
    else:  # id, text; MS MARCO: id, URL, title, text
        name, *rest = _text(line).rstrip("\r\n").split("\t")
        text = rest.pop() if rest else None
        title = rest.pop() if rest else None
    if name is None or text is None:
        raise error(DTypeError, where, "an id and a text", repr(_text(line[:80]).rstrip()))
    return {"id": name, "title": title, "text": text}


def _number(query: str) -> str:
    """Return the number of a topic as judgements have it: topics begin with 051."""
    return (query.lstrip("0") or "0") if query.isdigit() else query


def _text(line: bytes) -> str:
    return line.decode(errors="replace")  # old collections are in no one encoding


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


# ---- LongMemEval: each question has its own sessions, which are its cell ----

_CHUNK = 1 << 24  # characters


def _is_longmemeval(place: Place) -> bool:
    head = _head(place) if isinstance(place, Path) and place.is_file() else b""
    return head.lstrip()[:1] == b"[" and b'"question_id"' in head and b'"haystack_' in head


def _read_longmemeval(
    path: Path, *, unit: Unit | None, role: Role | None, abstention: bool | None
) -> Dataset:
    unit = unit or "sessions"
    for name, value, known in (("unit", unit, get_args(Unit)), ("role", role, get_args(Role))):
        if value is not None and value not in known:
            raise error(OptionError, name, f"one of {', '.join(known)}", repr(value))
    asked: list[Row] = []
    judgements: dict[str, dict[str, int]] = {}

    def rows() -> Iterator[Row]:
        for number, entry in enumerate(_entries(path), start=1):
            try:
                question = entry["question_id"]
                if question.endswith("_abs") and not abstention:
                    continue
                if question in judgements:
                    raise ValueError(f"{question!r} again")
                found = _haystack(entry, unit, role)
                texts = {"text": entry["question"], "question_type": entry["question_type"]}
            except MALFORMED as fault:
                wish = "a question of LongMemEval"
                got = f"{type(fault).__name__}: {fault}"
                raise error(DTypeError, f"{path} question {number}", wish, got) from None
            asked.append({"id": question, CELL: question, **texts})
            judgements[question] = {row["id"]: 1 for row in found if row.pop("is_right")}
            yield from ({CELL: question, **row} for row in found)

    corpus = _table(rows(), str(path))
    parts = (unit == "turns" and unit, role, abstention and "with abstention")
    name = ", ".join([path.stem, *(part for part in parts if part)])
    return Dataset(name, corpus, _table(asked, str(path)), judgements)


def _haystack(entry: Row, unit: Unit, role: Role | None) -> list[Row]:
    """Return the documents of a question; a session that occurs twice counts once."""
    made: list[Row] = []
    answers = set(entry["answer_session_ids"])
    sessions = dict(zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True))
    for session, turns in sessions.items():
        kept = [
            (at, turn) for at, turn in enumerate(turns, start=1) if role in (None, turn["role"])
        ]
        if unit == "sessions":
            text = "\n".join(turn["content"] for _, turn in kept)
            made.append({"id": session, "text": text, "is_right": session in answers})
        for at, turn in kept if unit == "turns" else ():
            own = {"id": f"{session}_{at}", "session": session, "turn": at, "role": turn["role"]}
            right = bool(turn.get("has_answer"))
            made.append({**own, "text": turn["content"], "is_right": right})
    return made


def _entries(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON array one by one: a file may be larger than memory."""
    decode = json.JSONDecoder().raw_decode
    try:
        with _open(path) as file:
            text, held = io.TextIOWrapper(file, "utf-8-sig"), ""
            while (held := held.lstrip(" \t\r\n[,"))[:1] != "]":
                try:
                    entry, end = decode(held)
                except ValueError:
                    more = text.read(_CHUNK)
                    if not more:
                        raise
                    held += more
                    continue
                yield entry
                held = held[end:]
    except (ValueError, RecursionError) as fault:
        raise error(DTypeError, str(path), "a list of JSON objects", fault) from None


_TABLES = Form("tables (BEIR, MTEB, LMEB)", _has_tables, _read_tables)
FORMS = (
    Form("LongMemEval", _is_longmemeval, _read_longmemeval, OF_MEMORIES),
    _TABLES,
    Form("TREC", _is_trec, _read_trec),
)
"""The known forms, in the order in which they are tried."""
