"""Which module may import which, and that a class name means one thing: reads the package.

`test_layers_cpp.py` does so for `csrc`.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A package and the files or rooms of hyrecall that may import it.
PYTHON_ONLY_IN = {
    "torch": {"table/tensors", "hits/tensors", "embed/transformer"},
    "httpcore2": {"embed/http_client"},
    "transformers": {"embed/transformer"},
    "ml_dtypes": {"table/tensors"},
    "tokenizers": {"text", "embed", "rerank"},
    "Stemmer": {"text"},
    "snowballstemmer": {"text"},
    "polars": {"hits/hits"},
    "pandas": {"hits/hits"},
    "typer": {"cli", "systems/hypergraph/command", "systems/l0/command"},
    "rich": {"cli", "base/text_tables", "hits/hit_tables"},
    "platformdirs": {"cli"},
    "apsw": {"memory"},
    "pydantic": {"memory", "serve", "systems", "adapters"},
    "mcp": {"serve"},
    "mcp_types": {"serve"},
    "anyio": {"serve"},
    "msgspec": {"memory"},
    "fastapi": {"serve", "systems"},
    "starlette": {"serve", "systems"},
    "uvicorn": {"serve"},
    "h11": {"serve"},
    "prometheus_client": {"serve"},
    "opentelemetry": set(),  # base/spans uses it where a program has imported it
    "sqlite3": set(),  # two copies of SQLite in one process break each other's locks
    "ir_measures": {"evaluate"},
    "pytrec_eval": {"evaluate"},
    "scipy": {"evaluate"},
    "matplotlib": {"evaluate", "hits/fused_score"},
    "onnxruntime": {"embed"},
    "langchain_core": {"adapters/langchain"},
    "langgraph": {"adapters/langgraph"},
    "llama_index": {"adapters/llama_index"},
    "haystack": {"adapters/haystack"},
    "loomflow": {"systems/loom/loomflow"},
    "agents": {"adapters/openai_agents"},
    "pydantic_ai": {"adapters/pydantic_ai"},
    "autogen_core": {"adapters/autogen"},
    "chromadb": {"migrate/chroma"},
    "lancedb": {"migrate/lancedb"},
    "qdrant_client": {"migrate/qdrant"},
    "obstore": {"replicas"},
    "pypdf": {"folders/parsing"},
    "crewai": {"adapters/crewai", "adapters/crewai_storage"},
    "ray": {"distributed/ray_cluster", "distributed/ray_serve"},
    "pickle": set(),
    "cloudpickle": set(),
    "joblib": set(),
    "marshal": set(),
    "shelve": set(),
    "dill": set(),
}
# What has nothing to do with Arrow, so that it can be read without it.
WITHOUT_PYARROW = {
    "__init__", "errors", "text", "ask/filters", "ask/predicates", "ask/queries", "ask/scoring",
    "base/arguments", "base/runtime", "base/spans", "base/text_tables",
    "hits/explain_text", "hits/fused_score",
    "hits/hit_tables", "recall/explain", "table/matrices",
    "table/tensors", "table/vectors",
}  # fmt: skip
# The rooms, nearest first: a file imports from its own room and from those before it.
ROOMS = (
    *("errors", "base", "embed", "text", "table", "stages"),
    *("ask/queries", "ask/scope", "arm", "ask", "recipes"),
    *("segments", "hits", "recall"),
    *("parts", "arms", "recipe", "index", "graph", "distributed"),
    *("memory/data", "memory/sql", "memory/derived", "memory/recall", "memory/faces"),
    *("memory/changes", "memory/keeping", "memory/sharing", "memory", ""),
    *("evaluate", "rerank", "folders", "replicas", "adapters", "migrate"),
    *("serve", "serve/mcp", "cli", "systems", "__main__"),
)
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
        *("ask/predicates", "ask/filters", "text/analyzer", "ask/arrow_conditions"),
        *("embed/http", "hits/hits", "hits/reply", "hits/joined_reply"),
        *("index", "graph/graph", "memory/store"),
    )
}
# A daemon thread in native code when the interpreter finalises aborts the process: threads.start()
# starts those that end before. No file of the package needs another way.
DAEMONS_ARE_STARTED_IN = "base/threads.py"
MACHINE_PATH = re.compile(r"/(work|root|home|opt|farm|Users)/\w")


def imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module


def daemons(nodes: list[ast.AST]) -> Iterator[int]:
    """Return the lines that make a daemon thread."""
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "daemon":
            is_daemon = not isinstance(node.value, ast.Constant) or node.value.value is True
        elif isinstance(node, ast.Attribute) and node.attr in {"daemon", "setDaemon"}:
            is_daemon = not isinstance(node.ctx, ast.Load) or node.attr == "setDaemon"
        else:
            continue
        if is_daemon:
            yield node.lineno


@cache  # several tests read the whole package
def read_package(root: Path) -> dict[Path, tuple[str, list[ast.AST]]]:
    """Return the text of each file of the package, and all nodes of its tree."""
    package = root / "python" / "hyrecall"
    texts = {path: path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    return {
        path.relative_to(package): (text, list(ast.walk(ast.parse(text))))
        for path, text in texts.items()
    }


@pytest.fixture(scope="module", autouse=True)
def _forget_package() -> Iterator[None]:
    """Let the trees go, which the collector of garbage would pass over for the rest of the run."""
    yield
    read_package.cache_clear()


def python_faults(root: Path) -> Iterator[str]:
    for inside, (text, nodes) in read_package(root).items():
        homes = {inside.parts[0].removesuffix(".py"), inside.as_posix().removesuffix(".py")}
        for name in imports(nodes):
            top = name.split(".")[0]
            if not homes & PYTHON_ONLY_IN.get(top, homes):
                yield f"{inside} imports {name}"
            if top == "pyarrow" and homes & WITHOUT_PYARROW:
                yield f"{inside} imports {name}"
        if inside.as_posix() != DAEMONS_ARE_STARTED_IN:
            for line in daemons(nodes):
                yield f"{inside}:{line} starts a daemon thread: threads.start() does"
        for found in FORBIDDEN_CALLS.finditer(text):
            if (inside.as_posix(), found.group()) not in ALLOWED_CALLS:
                yield f"{inside} uses {found.group()}"


# What an embedder may import beside its own room.
EMBED_MAY_IMPORT = {"errors"} | {
    f"base/{name}" for name in ("arguments", "forks", "keywords", "pool", "runtime", "threads")
}


def module_imports(root: Path) -> dict[str, set[str]]:
    """Return what each file imports of the package, type imports and those in functions too."""
    modules = {
        path.with_suffix("").as_posix().removesuffix("__init__").rstrip("/"): path
        for path in read_package(root)
    }
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        met = found[module] = set()
        for node in read_package(root)[path][1]:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: imports have full names"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                first, *rest = name.split(".")
                if first == "hyrecall" and "_core" not in rest:
                    known = "/".join(rest)
                    met.add(known if known in modules else known.rpartition("/")[0])
        met.discard(module)
    return found


def room_of(module: str) -> int:
    """Return the place in ROOMS of a module's room: the longest name that begins its own."""
    rooms = [room for room in ROOMS if not room or f"{module}/".startswith(f"{room}/")]
    return ROOMS.index(max(rooms, key=len))


def room_faults(root: Path) -> Iterator[str]:
    found = module_imports(root)
    own = {module for module in found if room_of(module) == ROOMS.index("embed")}
    for module, imported in sorted(found.items()):
        for name in sorted(imported):
            if room_of(name) > room_of(module):
                yield f"{module} imports {name}: upward"
            elif module.startswith("embed/") and name not in own | EMBED_MAY_IMPORT:
                yield f"{module} imports {name}: embedders know no index and no file"


# The tables that import a system when it is asked for by name; no other file knows one.
NAME_SYSTEMS = {"cli/app", "serve/app", "serve/mcp/server"}


def files_that_name_systems(root: Path) -> set[str]:
    """Return the modules outside of the room ``systems`` that import from it, or can by a text."""
    found = set()
    for path, (_, nodes) in read_package(root).items():
        module = path.with_suffix("").as_posix()
        for node in nodes:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:  # the text of an f-string is a constant too
                names = [node.value] if isinstance(node, ast.Constant) else []
            if any(isinstance(one, str) and one.startswith("hyrecall.systems") for one in names):
                found.add(module)
    return {module for module in found if not module.startswith("systems/")}


def circles(found: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, by whatever way."""
    reached = {module: set(imported) for module, imported in found.items()}
    for middle in found:
        for module in found:
            if middle in reached[module]:
                reached[module] |= reached.get(middle, set())
    together = {
        module: {o for o in reached[module] if module in reached.get(o, ())} for module in found
    }
    return [group | {module} for module, group in together.items() if group]


def text_files(root: Path) -> Iterator[Path]:
    for top in ("csrc", "python", "tests", "bench", "docs", "cmake", ".ci"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix not in {".so", ".pyc", ".parquet", ".npy"}:
                yield path
    yield from sorted(p for p in root.glob("*") if p.suffix in {".md", ".toml", ".txt", ".json"})


def file_faults(root: Path) -> Iterator[str]:
    for path in text_files(root):
        inside = path.relative_to(root).as_posix()
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # not text: data of a test
        if inside != "tests/test_layers.py":
            yield from (
                f"{inside} names the path {m.group()} of some machine"
                for m in MACHINE_PATH.finditer(text)
            )


def test_packages_are_imported_where_they_belong() -> None:
    assert list(python_faults(ROOT)) == []


def test_a_file_imports_only_from_nearer_rooms() -> None:
    assert list(room_faults(ROOT)) == []


def test_nothing_imports_a_system_but_the_tables_of_names() -> None:
    assert files_that_name_systems(ROOT) == NAME_SYSTEMS


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from hyrecall.systems.l0 import Notes",
        "from hyrecall import systems",
        "import hyrecall.systems.loom",
        "def f(name):\n    import_module(f'hyrecall.systems.{name}')",
    ],
)
def test_a_planted_import_of_a_system_is_found(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "python" / "hyrecall"
    folder.mkdir(parents=True)
    (folder / "index.py").write_text(text + "\n")
    assert files_that_name_systems(tmp_path) == {"index"}


def test_no_modules_import_each_other() -> None:
    assert circles(module_imports(ROOT)) == []


def test_files_name_no_machine() -> None:
    assert list(file_faults(ROOT)) == []


def test_there_is_a_tree_to_read() -> None:
    modules = set(module_imports(ROOT)) | {"__init__"}
    assert modules >= WITHOUT_PYARROW
    assert {room_of(module) for module in modules} == set(range(len(ROOMS)))


PLANTED_PYTHON = [
    ("hits/hits.py", "import torch\n"),
    ("index.py", "def f():\n    import pickle\n"),
    ("errors.py", "import pyarrow.compute as pc\n"),
    ("index.py", "x = eval('1')\n"),
    ("index.py", "x = torch.load(path)\n"),
    ("index.py", "x = np.load(path)\n"),
    ("ask/scope.py", "class A:\n    def __reduce__(self): ...\n"),
    ("index.py", "import apsw\n"),
    ("memory/sql/database.py", "import sqlite3\n"),
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


PLANTED_ROOMS = [
    ("index", "from hyrecall.memory import Episode"),
    ("index", "def f():\n    from hyrecall.cli.main import app"),
    ("embed/static", "if TYPE_CHECKING:\n    from hyrecall.index import Index"),
    ("memory/sql/schema", "from hyrecall.memory.derived import follower"),
    ("memory/sql/lock", "import hyrecall.memory.store"),
]


@pytest.mark.parametrize(("module", "text"), PLANTED_ROOMS)
def test_a_planted_upward_import_is_found(tmp_path: Path, module: str, text: str) -> None:
    path = tmp_path / "python" / "hyrecall" / f"{module}.py"
    path.parent.mkdir(parents=True)
    path.write_text(text + "\n")
    assert [fault.split()[0] for fault in room_faults(tmp_path)] == [module]


def test_a_planted_circle_of_imports_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "python" / "hyrecall" / "ask"
    folder.mkdir(parents=True)
    (folder / "first.py").write_text("from hyrecall.ask import second\n")
    (folder / "second.py").write_text("def f():\n    from hyrecall.ask.third import third\n")
    (folder / "third.py").write_text("if TYPE_CHECKING:\n    import hyrecall.ask.first\n")
    assert circles(module_imports(tmp_path))[0] == {"ask/first", "ask/second", "ask/third"}


def test_a_planted_machine_path_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("see /" + "home/someone/notes\n")
    assert [fault.split()[0] for fault in file_faults(tmp_path)] == ["README.md"]


# Class names that several modules may define, and why.
ADAPTERS = "a framework's users import it from the module of their framework"
SHAPES = "clients read it in the description of the REST API or of an MCP tool"
SHARED_NAMES = {
    **dict.fromkeys(("HyrecallMemory", "HyrecallRetriever", "HyrecallVectorStore"), ADAPTERS),
    "FoundDocument": ADAPTERS,
    **dict.fromkeys(("ChangedMemory", "NewMemory", "RecallBody", "SearchBody"), SHAPES),
    **dict.fromkeys(("Edge", "Hit", "Node", "OneMemory"), SHAPES),
    "BatchOptions": "the same options as arguments of Python and as a part of a REST request",
}


def repeated(root: Path) -> dict[str, list[str]]:
    """Return the class names that several modules define, each with its modules."""
    found = defaultdict(list)
    for path, (_, nodes) in read_package(root).items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.as_posix())
    return {name: places for name, places in found.items() if len(places) > 1}


def test_a_class_name_means_one_thing() -> None:
    found = repeated(ROOT)
    assert {name: found[name] for name in found.keys() - SHARED_NAMES.keys()} == {}


def test_no_exception_is_left_over() -> None:
    assert SHARED_NAMES.keys() - repeated(ROOT).keys() == set()


def test_a_planted_second_meaning_is_found(tmp_path: Path) -> None:
    package = tmp_path / "python" / "hyrecall"
    (package / "room").mkdir(parents=True)
    (package / "one.py").write_text("class Link: ...\nclass Other: ...\n")
    (package / "room" / "two.py").write_text("def f():\n    class Link: ...\n")
    assert repeated(tmp_path) == {"Link": ["one.py", "room/two.py"]}
