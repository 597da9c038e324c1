"""What every command shows at 80 and 120 columns is kept in ``screens``, a file per command.

A file has the help of its command and what a few calls write: a line ``$ ...`` is the call, what
follows is stdout, then stderr behind ``2> ``, then the exit code if it is not 0. Durations, rates,
threads, sizes on the disk and times of writing are shown as zeros, and nothing else is changed. The
texts are found by words alone, ids are given, and the machine and its CUDA devices are made up.

After a change that is meant, ``pytest tests/cli/test_screens.py --update-screens`` writes the files
anew; read what git says of them. A new command fails until ``SCREENS`` has calls of it.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("rich", reason="the extra [cli] is not installed")

import typer

from hyrecall import _core
from screen_corpus import write_corpus
from seams import app_app as app
from seams import width_of

SCREENS_FOLDER = Path(__file__).parent / "screens"
WIDTHS = NARROW, WIDE = 80, 120

INDEX = (
    "index notes.parquet -o notes.index --key id --cell tenant --text body=title+text "
    "--vector embedding --attribute stars --analyzer snowball:english --stopwords english"
)
SHARDS = (
    "shards build notes.parquet notes.shards --key id --cell tenant --text body=title+text "
    "--shards 2"
)
STORE = (
    "remember 'Deploys run on Friday at noon; whoever deploys reads the checklist first, and "
    "writes the version that was deployed into the calendar, so that nobody has to ask later on "
    "which build the customers see and what the last migration of the database was. The "
    "on-call engineer may stop a deploy.' --user ann --tag ci --occurred-at 2026-06-01T12:00",
    "remember 'Postgres replication is asynchronous' --user ann --id db-1 "
    "--occurred-at 2026-06-02T12:00",
    "remember 'lunch was great' --user ann --kind note --id m3 --session-id s1 "
    "--occurred-at 2026-06-03T12:00",
    "remember 'bob keeps the passwords' --user bob --id m4 --occurred-at 2026-06-04T12:00",
)
FIRST = "ep_0123456789abcdef0123456789abcdef"  # the id of the first memory


@dataclass(frozen=True)
class Screen:
    """Calls of a command, after others whose replies are not shown.

    Attributes
    ----------
    calls : tuple of str
    before : tuple of str
    needs : tuple of str
        Packages that bring extras.
    holds_data : bool
        Whether stdout is JSON lines or files, which are never wrapped.
    """

    calls: tuple[str, ...]
    before: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    holds_data: bool = False


def of_store(*calls: str, holds_data: bool = False) -> Screen:
    return Screen(calls, STORE, ("apsw",), holds_data)


def of_notes(*calls: str) -> Screen:
    return Screen(calls, ("ltm save deploy 'On Friday' --scope work --tag plan",), ("apsw",), True)


SCREENS = {
    "index": Screen((INDEX, INDEX, f"{INDEX} --replace", "index notes.txt -o n --key id")),
    "sync": Screen(
        ("index docs -o docs.index", "index docs -o docs.index --text text",
         "recall docs.index 'replace a disk'", "sync docs docs.index", "sync docs/later docs.index",
         "sync docs notes.index"), (INDEX,),
    ),
    "recall": Screen(
        (
            "recall notes.index 'deploying databases' --scope acme",
            "recall notes.index deploys --scope acme --vector '[1,0,0,0]' --fusion rrf --limit 2 "
            "--explain",
            "recall notes.index deploys --scope acme --scope bolt --vector '[1,0,0,0]' "
            "--fusion sum:body=0.7,embedding=0.3 --normalize --limit 1 --explain",
            "recall notes.index deploys --scope nobody",
            "recall notes.index deploys",
            "recall nothing.index deploys --scope acme",
            "recall notes.index deploys --scope acme --user ann",
            "recall",
        ),
        (INDEX,),
    ),
    "recall of a store": of_store(
        "recall 'when do we deploy' --user ann",
        "recall replication --user ann --limit 1 --explain",
        "recall replication --user ann --limit 2 --recipe loom --explain",
        "recall --user ann --recipe hypergraph '^lunch' --force-regex",
        "recall lunch",
        "recall lunch --user ann --recipe none",
        "recall lunch --user ann --since yesterday",
    ),
    "context": of_store(
        "context --query 'when do we deploy' --user ann",
        "context --query xyzzy --user ann",
        "context --query deploy --user ann --budget 0",
        holds_data=True,
    ),
    "batch": Screen(
        (
            "batch notes.index queries.jsonl -o hits.parquet --query-text q --query-scope tenant",
            "batch notes.index queries.jsonl -o hits.csv --query-text no --query-scope tenant",
            "batch notes.index queries.jsonl -o hits.txt --query-text q --query-scope tenant",
            "batch notes.index bad.jsonl -o hits.csv --query-text q --query-scope tenant "
            "--query-key q",
            "batch notes.index bad.jsonl -o hits.csv --query-text q --query-scope tenant "
            "--query-key q",
            "batch notes.index bad.jsonl -o hits.csv --query-text q --query-scope tenant "
            "--query-key q --resume --on-error skip",
        ),
        (INDEX,),
    ),
    "info": Screen(("info notes.index", "info --devices", "info --report", "info"), (INDEX,)),
    "shards build": Screen(
        (SHARDS, SHARDS, f"{SHARDS} --resume", "shards build none n --key id --no-cell --text text",
         "shards build none n --key id --no-cell --text text --shards 2")
    ),
    "shards info": Screen(
        ("shards info notes.shards", "shards info notes.shards --verify",
         "shards info notes.index"), (SHARDS, INDEX),
    ),
    "shards rebalance": Screen(
        (*("shards rebalance notes.shards --shards 3",) * 2, "shards rebalance notes.shards"),
        (SHARDS,),
    ),
    "demo": Screen(("demo --limit 2",)),
    "evaluate": Screen(
        ("evaluate small", "evaluate small -r bm25 -r dense --diff 2", "evaluate small -r none"),
        needs=("ir_measures", "scipy"),
    ),
    "tune": Screen(("tune small",), needs=("ir_measures", "scipy")),
    "learn": Screen(
        ("learn small -o recipe.json", "learn small --confidence -o recipe.json"),
        needs=("ir_measures", "scipy"),
    ),
    "remember": of_store(
        "remember 'oak is a tree' --user ann --id t1",
        "remember 'oak is a tree' --user ann --id t1 --json",
        "remember 'oak is a tree' --importance 11",
    ),
    "forget": of_store(
        f"forget {FIRST} --user ann",
        "forget db-1 m3 --user ann --reason 'no longer so'",
        "forget --session-id s1 --user ann",
        "forget --session-id s1 --user ann --yes",
        "forget no-such --user ann --json",
    ),
    "get": of_store("get db-1 --user ann", "get db-1 --user bob", "get m3 --user ann --json"),
    "list": of_store("list --user ann", "list --user ann --kind no", "list --user ann --limit -1"),
    "history": of_store("update db-1 --text 'Replication is slow' --user ann --reason measured",
                        "history db-1 --user ann"),
    "update": of_store("update db-1 --text 'Replication is slow' --user ann",
                       "update db-1 --user ann", "update db-1 --metadata 5 --user ann"),
    "update-many": of_store("update-many '{\"kind\": \"note\"}' --id db-1 --user ann",
                            "update-many '{\"text\": \"x\"}' --id db-1 --user ann"),
    "list-sessions": of_store("remember tea --id t --user ann --session-id monday",
                              "list-sessions --user ann", "list-sessions --user bob"),
    "list-users": of_store("list-users", "list-users --org no"),
    "list-agents": of_store("policy planner shared --org acme --workspace lab",
                            "list-agents --org acme --workspace lab"),
    "supersede": of_store("supersede db-1 'Replication is off' --new-id db-2 --user ann",
                          "supersede none other --user ann"),
    "pin": of_store("pin db-1 --user ann", "pin db-1 --no-pinned --user ann"),
    "link": of_store("link 'goes with' db-1 m3 --user ann --id e1", "link alone db-1 --user ann"),
    "unlink": of_store("unlink none --user ann"),
    "links": of_store("link 'goes with' db-1 m3 --user ann --id e1", "links m3 --user ann"),
    "remember-fact": of_store("remember-fact ann 'lives in' Oslo --id f1 --user ann",
                              "remember-fact ann 'lives in' --user ann"),
    "recall-facts": of_store("remember-fact ann 'lives in' Oslo --id f1 --user ann "
                             "--valid-from 2026-01-01", "recall-facts 'where is ann' --user ann"),
    "list-facts": of_store("remember-fact ann 'lives in' Oslo --id f1 --user ann "
                           "--valid-from 2026-01-01", "list-facts --user ann",
                           "list-facts --user ann --subject bob"),
    "end-fact": of_store("end-fact m3 --user ann", "end-fact none --user ann --at 2026-01-01"),
    "policy": of_store(
        "policy planner --org acme --workspace lab",
        "policy planner group --policy-group crew --org acme --workspace lab",
        "policy planner --org acme --workspace lab --json",
        "policy planner all --org acme --workspace lab",
    ),
    "feedback": of_store(
        "feedback 'is replication synchronous?' db-1 m3 --user ann",
        "feedback 'is replication synchronous?' m4 --user ann",
        "feedback --user ann",
    ),
    "reembed": of_store("reembed"),
    "export": of_store("export --user ann", "export", "export --everyone -o all.jsonl --json",
                       holds_data=True),
    "import": Screen(
        ("import all.jsonl --path other.mem", "import all.jsonl --path other.mem",
         "import notes.parquet --path other.mem", "import none.jsonl",
         "import mem0.json --path other.mem --from mem0 --user-from user_id",
         "import mem0.json --path other.mem --from mem0 --user-from user_id",
         "import mem0.json --from mem0", "import all.jsonl --user ann"),
        (*STORE, "export --everyone -o all.jsonl"), ("apsw",),
    ),
    "doctor": of_store("doctor", "doctor --full --rescue x --repair", "doctor --path none.mem"),
    "compact": of_store("compact"),
    "push": of_store(
        "push remote", "push remote", "push remote --prune --keep 1 --older-than 0s",
        "push remote --keep 1", "push remote --prune --older-than soon",
        "push remote --path none.mem",
    ),
    "pull": Screen(
        ("pull remote --path copy.mem", "pull remote --path copy.mem",
         "remember 'mine' --path copy.mem", "push remote --path copy.mem",
         "pull remote --path copy.mem --promote",
         "pull remote --path agent.mem", "pull none --path new.mem",
         "pull indexes --path copy.index"),
        (*STORE, "push remote", INDEX, "push indexes --path notes.index"), ("apsw",),
    ),
    "follow": of_store("follow remote --path copy.mem --every -1"),
    "mcp": of_store("mcp --user ann --any-user", "mcp --system hebb", "mcp --http --host 0.0.0.0"),
    "browse ls": of_store("browse ls --user ann", "browse ls /memories/note --user ann"),
    "browse cat": of_store("browse cat /index.md --user ann", "browse cat /none --user ann",
                           holds_data=True),
    "browse grep": of_store("browse grep replication --user ann", "browse grep '(' --regex",
                            holds_data=True),
    "browse find": of_store("browse find '*db*' --user ann"),
    "config set": Screen(("config set weight_recency 2.0", "config set weight_recency much",
                          "config set no 1")),
    "config get": Screen(("config get recipe", "config get no"), ("config set recipe loom",)),
    "config unset": Screen(("config unset recipe",), ("config set recipe loom",)),
    "config list": Screen(("config list", "config list --json"), ("config set recipe loom",)),
    "config path": Screen(("config path",)),
    "hm recall": of_store(
        "hm recall replication --user ann",
        "hm recall '^lunch' --force-regex --user ann -n 1",
        "hm recall '(' --force-regex --user ann",
        "hm recall lunch --user ann -n 51",
        "hm recall lunch --path none.mem",
    ),
    "ltm save": of_notes("ltm save deploy 'On Monday' --scope work"),
    "ltm get": of_notes("ltm get no-such"),
    "ltm search": of_notes("ltm search none"),
    "ltm list": of_notes("ltm list --scope none"),
    "ltm delete": of_notes("ltm delete deploy --scope work", "ltm delete deploy"),
    "ltm pin": of_notes("ltm pin no-such"),
    "ltm unpin": of_notes("ltm unpin no-such"),
    "ltm supersede": of_notes("ltm supersede no-such new 'On Monday'"),
    "ltm path": Screen(("ltm path",)),
    "ltm reembed": of_notes("ltm reembed"),
    **{group: Screen((group,)) for group in ("hm", "ltm", "shards")},
    "serve": Screen(
        ("serve agent.mem --host 0.0.0.0", "serve agent.mem --tokens none.json",
         "serve agent.mem --option max_bodies=1", "serve agent.mem --option max_body=much",
         "serve notes.index --recipe loom", "serve agent.mem --workers 0",
         "serve small --workers 2 --port 0"),
        (INDEX,), ("fastapi",),
    ),
    "token make": Screen(
        ("token make --tokens t.json --user ann --org acme --workspace lab",
         "token make --tokens t.json --user ann --any-user",
         "token make --tokens t.json --rights root"), needs=("apsw",),
    ),
    "token list": Screen(
        ("token list --tokens t.json", "token list --tokens t.json --json",
         "token list --tokens none.json"),
        ("token make --tokens t.json --any-user --org acme --rights read --note 'the bot'",),
        ("apsw",),
    ),
    "token revoke": Screen(
        ("token revoke 01234567 --tokens t.json", "token revoke 01234567 --tokens t.json"),
        ("token make --tokens t.json",), ("apsw",),
    ),
    **{group: Screen((group,)) for group in ("token", "browse", "config")},
    "hyrecall": Screen(("", "no-such-command", "forget --no-such-option")),
}  # fmt: skip


# What `info --report` finds, by the function that finds it.
MACHINE = {
    "_version": "1.2.3",
    "_sqlite": "3.51.3",
    "_extras": {"cli": {"typer": "0.15.1", "rich": "13.9.4"}, "redis": {"redis": None}},
    "_system": {"kernel": "Linux 6.1.0 x86_64", "distribution": "Debian GNU/Linux 12 (bookworm)",
                "libc": "glibc 2.36"},
    "_processor": {"model": "A processor", "instruction_set": "avx2", "cores": 8,
                   "instructions": ["fma", "f16c", "avx2"], "allowed_cores": 4, "threads": 2},
    "_environment": {"HYRECALL_EMBED_DISABLE": "1", "HYRECALL_PATH": None},
}  # fmt: skip


def commands(group: Any, *path: str) -> Iterator[str]:
    yield " ".join(path) or "hyrecall"
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, *path, name)


COMMANDS = set(commands(typer.main.get_command(app)))


@pytest.fixture
def world(
    run: Callable[..., SimpleNamespace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with a corpus, queries and a retrieval set; every draw and device is fixed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("HYRECALL_PATH", "agent.mem")
    monkeypatch.setenv("HYRECALL_CONFIG", "config.json")
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    monkeypatch.setenv("HYRECALL_SERVE", "")  # serve --workers sets it
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr("hyrecall.embed.static._PACKAGE", "no_such_package")
    drawn = SimpleNamespace(token_hex=lambda n_bytes: FIRST[3 : 3 + 2 * n_bytes])
    monkeypatch.setattr("hyrecall.memory.data.types.secrets", drawn)
    if find_spec("apsw") is not None:
        drawn.token_urlsafe = lambda n_bytes: "secret" * (n_bytes // 6)
        monkeypatch.setattr("hyrecall.serve.tokens.secrets", drawn)
    monkeypatch.setattr(
        _core.device,
        "describe",
        lambda _: {
            "has_library": True, "driver_version": 13000, "runtime_version": 13000, "problem": "",
            "devices": [("NVIDIA H100 80GB HBM3", 9, 0, 80 * 2**30, 132),
                        ("Quadro T4", 7, 5, 2**34, 40)],
        },
    )  # fmt: skip
    for part, made_up in MACHINE.items():
        monkeypatch.setattr(
            f"hyrecall.cli.info_command.{part}", lambda *_, made_up=made_up: made_up
        )
    write_corpus(tmp_path)
    return tmp_path


def normal(text: str) -> str:
    """Show what differs from run to run and machine to machine as zeros."""

    def zeros(match: re.Match[str]) -> str:
        return re.sub(r"\d", "0", match[0])

    text = re.sub(r"\d+\.\d+ (s|ms|MiB)\b", r"0.0 \1", text)
    text = re.sub(r"stored-[0-9a-f]{16}", "stored-0000000000000000", text)
    text = re.sub(r"[\d,]+ queries/s", "0 queries/s", text)
    text = re.sub(r"file:///\S+/(\w+)", r"file:///\1", text)
    text = re.sub(r"\(\w+, \d+ threads\)", "(scalar, 0 threads)", text)
    text = re.sub(r"[\d,]+ bytes before, [\d,]+ after", "0 bytes before, 0 after", text)
    text = re.sub(r"(Python +|memory +)\d+\.\d+(\.\d+)?( \(\w+\))?", r"\g<1>0.0", text)
    text = re.sub(r"snapshot bytes\s+[\d,]+", zeros, text)
    text = re.sub(r'"(created|updated)_at": \d+', r'"\1_at": 0', text)
    return re.sub(r"(?!2026-06)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", zeros, text)


def shown(run: Callable[..., SimpleNamespace], call: str) -> str:
    reply = run(*shlex.split(call))
    lines = [f"$ hyrecall {call}".rstrip(), *normal(reply.out).splitlines()]
    lines += [f"2> {line}".rstrip() for line in normal(reply.err).splitlines()]
    return "\n".join(lines + ([f"exit code {reply.code}"] if reply.code else [])) + "\n"


_prepared: dict[tuple[str, ...], Path] = {}


def links(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_symlink()]


def prepare(run: Callable[..., SimpleNamespace], calls: tuple[str, ...], here: Path) -> None:
    """Leave in a folder what the calls write there; they run once for all screens."""
    if calls not in _prepared:
        for call in calls:
            assert run(*shlex.split(call)).code == 0, call
        kept = here.parent.parent / f"prepared-{len(_prepared)}"
        copytree(here, kept, ignore=links)
        _prepared[calls] = kept
    else:
        copytree(_prepared[calls], here, dirs_exist_ok=True)


def heading(width: int) -> str:
    return f"{'=' * 20} {width} columns {'=' * 20}\n"


def kept_of(text: str, width: int) -> str:
    """Return the part of a file that is of this width."""
    narrow, found, wide = text.partition(heading(WIDE))
    return narrow if width == NARROW else found + wide


@pytest.mark.parametrize("width", [NARROW, pytest.param(WIDE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SCREENS)
def test_screens_are_as_they_are_kept(
    run: Callable[..., SimpleNamespace],
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    name: str,
    width: int,
) -> None:
    screen = SCREENS[name]
    for package in screen.needs:
        pytest.importorskip(package, reason=f"an extra with {package} is not installed")

    def made_of(width: int) -> str:
        here = world / str(width)
        here.mkdir()
        for file in ("notes.parquet", "queries.jsonl", "bad.jsonl", "mem0.json", "small", "docs"):
            (here / file).symlink_to(world / file)
        monkeypatch.chdir(here)
        monkeypatch.setenv("COLUMNS", str(width))
        prepare(run, screen.before, here)
        helped = [] if name not in COMMANDS else [f"{name} --help".removeprefix("hyrecall ")]
        return heading(width) + "\n".join(shown(run, call) for call in [*helped, *screen.calls])

    path = SCREENS_FOLDER / f"{name.replace(' ', '_')}.txt"
    if request.config.getoption("--update-screens"):
        path.write_text("".join(made_of(one) for one in WIDTHS), "utf-8")
    else:
        assert kept_of(path.read_text("utf-8"), width) == made_of(width)


def test_every_command_has_screens() -> None:
    assert set(SCREENS) >= COMMANDS
    files = {path.stem for path in SCREENS_FOLDER.iterdir()}
    assert files == {name.replace(" ", "_") for name in SCREENS}


@pytest.mark.parametrize("name", SCREENS)
def test_no_line_of_a_screen_is_wider_than_its_width(name: str) -> None:
    text = (SCREENS_FOLDER / f"{name.replace(' ', '_')}.txt").read_text("utf-8")
    _, *sections = re.split(r"=+ (\d+) columns =+\n", text)
    assert sections[::2] == [str(width) for width in WIDTHS]
    for width, section in zip(WIDTHS, sections[1::2], strict=True):
        replies = re.split(r"^\$ hyrecall (.*)\n", section, flags=re.MULTILINE)[1:]
        for call, reply in zip(replies[::2], replies[1::2], strict=True):
            if "--json" in call or (SCREENS[name].holds_data and "--help" not in call):
                continue
            lines = [one for one in reply.splitlines() if not one.startswith("2> ")]
            assert [line for line in lines if width_of(line) > width] == [], call
