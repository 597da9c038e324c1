"""Which module may import which: reads every `import` line of the package.

`test_layers_cpp.py` does so for `csrc`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_LINES = 400
MAX_LINES_OF_ONE_CLASS = 700
# A public class, or one that every call goes through, whose methods belong together.
ONE_CLASS = {
    f"python/hyrecall/{name}.py"
    for name in ("index", "memory/database", "memory/follower", "memory/memory", "memory/sync")
}

# A package and the modules of hyrecall that may import it: the border to Arrow is read and written
# in many places, the others each have one. A subpackage is a module; a file of it may be one too.
PYTHON_ONLY_IN = {
    "torch": {"tensors", "embed/transformer"},
    "httpcore2": {"embed/http_client"},
    "transformers": {"embed/transformer"},
    "ml_dtypes": {"tensors"},
    "tokenizers": {"analyzer", "_text_functions", "embed"},
    "Stemmer": {"analyzer", "_text_functions"},
    "polars": {"frames"},
    "pandas": {"frames"},
    "typer": {"cli"},
    "rich": {"cli", "rich_tables"},
    "apsw": {"memory"},
    "pydantic": {"memory"},
    "sqlite3": set(),  # two copies of SQLite in one process break each other's locks
    "ir_measures": {"evaluate"},
    "pytrec_eval": {"evaluate"},
    "scipy": {"evaluate"},
    "matplotlib": {"evaluate", "plot"},
    "pickle": set(),
    "cloudpickle": set(),
    "joblib": set(),
    "marshal": set(),
    "shelve": set(),
    "dill": set(),
}
# Modules that have nothing to do with Arrow, so that they can be read without it.
WITHOUT_PYARROW = {
    "__init__", "_text_functions", "analyzer", "arguments", "errors", "explain", "explain_text",
    "explanation", "filters", "hit_tables", "keywords", "matrices", "plot", "predicates", "queries",
    "rich_tables", "runtime", "scoring", "tensors", "text_tables", "vectors",
}  # fmt: skip
# The modules of hyrecall.memory, lowest first: one imports only those of the lines above its own.
MEMORY_RANKS = (
    {"fields", "metadata", "origin"},
    {"types", "degradation", "faults", "lock", "schema", "sound", "header"},
    {"losses", "connecting", "given_fields"},
    {"database"},
    {"in_memory"},
    {"cells"},
    {"codec"},
    {"folders", "paths", "edge_rows", "reading", "roster", "selection", "layout"},
    {
        "matches",
        "sessions",
        "bounded",
        "holder",
        "backends/shim",
        "pages",
        "version_rows",
        "narrowing",
    },
    {"erasing", "writing", "substring", "ready", "redis_sessions", "store_sessions"},
    {"fact_rows"},
    {"backfill", "projection", "lines", "audience", "doctor"},
    {"usable", "derived"},
    {"tables", "snapshots", "adapting", "seen", "contents"},
    {"merging"},
    {"asking"},
    {"transfer", "follower", "unranked", "rescue"},
    {"foreign", "background", "recalling"},
    {"backends/ranked", "backends/wrappers", "backends/contract"},
    {"backends/chroma", "backends/postgres", "backends/redis", "vectorstore"},
    {"backends/__init__"},
    {"store"},
    {"reads", "changing", "browse"},
    {"upkeep"},
    {"agent_view", "sync_reads", "sync_recall", "sync_upkeep", "sync_writes"},
    {"sync", "agent_memory"},
    {"memory_reads"},
    {"memory", "notes"},
    {"hypergraph"},
)
# What knows the durable store: itself, the faces, and the root, which gives its names when asked.
MAY_IMPORT_MEMORY = {"memory", "cli", "__init__"}
# What an embedder may know of the rest of the package.
EMBED_MAY_IMPORT = {"embed", "errors", "arguments", "keywords", "threads"}
FORBIDDEN_CALLS = re.compile(
    r"\b(eval|exec)\(|torch\.load|allow_pickle=True|np\.load\((?![^)]*allow_pickle=False)|__reduce__|__setstate__"
)
# Filters and analyzers are frozen after their constructor: the standard library copies them, and
# ships them to a worker, through __reduce__, which here names that constructor.
# An Arrow expression shows its tree there only; it is read as data, the callable in it never runs.
# Hits are shipped as their values; an index, a graph and a store refuse to be, and say what to do.
ALLOWED_CALLS = {
    (f"{name}.py", "__reduce__")
    for name in (
        *("predicates", "filters", "analyzer", "filter_expression"),
        *("hits", "hit", "index", "graph", "memory/store"),
    )
}
# A daemon thread in native code when the interpreter finalises aborts the process: threads.start()
# starts those that end before. No file of the package needs another way.
DAEMONS_ARE_STARTED_IN = "threads.py"
MACHINE_PATH = re.compile(r"/(work|root|home|opt|farm|Users)/\w")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module


def daemons(tree: ast.AST) -> Iterator[int]:
    """Return the lines that make a daemon thread."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "daemon":
            is_daemon = not isinstance(node.value, ast.Constant) or node.value.value is True
        elif isinstance(node, ast.Attribute) and node.attr in {"daemon", "setDaemon"}:
            is_daemon = not isinstance(node.ctx, ast.Load) or node.attr == "setDaemon"
        else:
            continue
        if is_daemon:
            yield node.lineno


def python_faults(root: Path) -> Iterator[str]:
    package = root / "python" / "hyrecall"
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        module = inside.parts[0].removesuffix(".py")  # a subpackage counts as one module
        text = path.read_text()
        for name in imports(ast.parse(text)):
            top = name.split(".")[0]
            file = inside.as_posix().removesuffix(".py")
            if not {module, file} & PYTHON_ONLY_IN.get(top, {module}):
                yield f"{inside} imports {name}"
            if top == "pyarrow" and inside.as_posix().removesuffix(".py") in WITHOUT_PYARROW:
                yield f"{inside} imports {name}"
            if name.startswith("hyrecall.cli") and module not in {"cli", "__main__"}:
                yield f"{inside} imports {name}: nothing needs the command line"
        if inside.as_posix() != DAEMONS_ARE_STARTED_IN:
            for line in daemons(ast.parse(text)):
                yield f"{inside}:{line} starts a daemon thread: threads.start() does"
        for found in FORBIDDEN_CALLS.finditer(text):
            if (inside.as_posix(), found.group()) not in ALLOWED_CALLS:
                yield f"{inside} uses {found.group()}"


def memory_faults(root: Path) -> Iterator[str]:
    """What imports the store, and who imports whom inside it and among embedders."""
    package = root / "python" / "hyrecall"
    rank = {name: at for at, names in enumerate(MEMORY_RANKS) for name in names}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        module = inside.parts[0].removesuffix(".py")
        own = inside.relative_to("memory").with_suffix("").as_posix() if module == "memory" else ""
        is_ranked = module == "memory" and own != "__init__"
        if is_ranked and own not in rank:
            yield f"{inside} has no place in MEMORY_RANKS"
            continue
        for name in imports(ast.parse(path.read_text())):
            first, *rest = name.removeprefix("hyrecall.").split(".")
            if not name.startswith("hyrecall."):
                continue
            if first == "memory" and module not in MAY_IMPORT_MEMORY:
                yield f"{inside} imports {name}: nothing needs the store"
            if module == "embed" and first not in EMBED_MAY_IMPORT:
                yield f"{inside} imports {name}: embedders know no index and no store"
            other = "/".join(rest)
            if is_ranked and first == "memory" and rank.get(other, -1) >= rank[own]:
                yield f"{inside} imports {name}: upward"


def text_files(root: Path) -> Iterator[Path]:
    for top in ("csrc", "python", "tests", "bench", "docs", "cmake", ".ci"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix not in {".so", ".pyc", ".parquet", ".npy"}:
                yield path
    yield from sorted(p for p in root.glob("*") if p.suffix in {".md", ".toml", ".txt", ".json"})


def file_faults(root: Path) -> Iterator[str]:
    code = {".py", ".pyi", ".cpp", ".hpp", ".cu", ".cuh", ".cmake"}
    for path in text_files(root):
        inside = path.relative_to(root).as_posix()
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # not text: data of a test
        n_lines = text.count("\n")
        most = MAX_LINES_OF_ONE_CLASS if inside in ONE_CLASS else MAX_LINES
        if path.suffix in code and n_lines > most:
            yield f"{inside} has {n_lines} lines, more than {most}"
        if inside != "tests/test_layers.py":
            yield from (
                f"{inside} names the path {m.group()} of some machine"
                for m in MACHINE_PATH.finditer(text)
            )


def test_packages_are_imported_where_they_belong() -> None:
    assert list(python_faults(ROOT)) == []


def test_the_store_is_built_upwards() -> None:
    assert list(memory_faults(ROOT)) == []
    folder = ROOT / "python" / "hyrecall" / "memory"
    paths = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py"))
    there = {path.as_posix() for path in paths}
    assert set().union(*MEMORY_RANKS) == there - {"__init__"}


def test_files_are_short_and_name_no_machine() -> None:
    assert list(file_faults(ROOT)) == []


def test_there_is_a_tree_to_read() -> None:
    modules = {p.stem for p in (ROOT / "python" / "hyrecall").glob("*.py")}
    assert modules >= WITHOUT_PYARROW


PLANTED_PYTHON = [
    ("hits.py", "import torch\n"),
    ("index.py", "def f():\n    import pickle\n"),
    ("errors.py", "import pyarrow.compute as pc\n"),
    ("index.py", "from hyrecall.cli.main import app\n"),
    ("index.py", "x = eval('1')\n"),
    ("index.py", "x = torch.load(path)\n"),
    ("index.py", "x = np.load(path)\n"),
    ("scope.py", "class A:\n    def __reduce__(self): ...\n"),
    ("index.py", "import apsw\n"),
    ("memory/database.py", "import sqlite3\n"),
    ("embed/static.py", "import torch\n"),
    ("memory/memory.py", "threading.Thread(\n    target=f,\n    daemon=True,\n).start()\n"),
    ("index.py", "def f(thread):\n    thread.daemon = True\n"),
]


@pytest.mark.parametrize(("place", "text"), PLANTED_PYTHON)
def test_a_planted_import_or_call_is_found(tmp_path: Path, place: str, text: str) -> None:
    path = tmp_path / "python" / "hyrecall" / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(list(python_faults(tmp_path))) == 1


PLANTED_MEMORY = [
    ("memory/schema.py", "from hyrecall.memory.database import Database\n"),
    ("memory/lock.py", "from hyrecall.memory.schema import FORMAT\n"),
    ("memory/new.py", ""),
    ("index.py", "from hyrecall.memory import Episode\n"),
    ("embed/static.py", "from hyrecall.index import Index\n"),
]


@pytest.mark.parametrize(("place", "text"), PLANTED_MEMORY)
def test_a_planted_import_in_the_store_is_found(tmp_path: Path, place: str, text: str) -> None:
    path = tmp_path / "python" / "hyrecall" / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(list(memory_faults(tmp_path))) == 1


def test_a_planted_long_file_and_a_machine_path_are_found(tmp_path: Path) -> None:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "long.cpp").write_text("\n" * (MAX_LINES + 1))
    (tmp_path / "README.md").write_text("see /" + "home/someone/notes\n")
    assert [fault.split()[0] for fault in file_faults(tmp_path)] == ["csrc/long.cpp", "README.md"]
