"""Nobody is told what is not theirs from a shell either: every command, run as everybody else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("rich", reason="the extra [cli] is not installed")

import typer.main
from typer.testing import CliRunner

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from memory.isolation.test_every_door import everybody, leaks
from memory.isolation.world import VIEWERS, Viewer, World, make_world
from memory.stores import DIM
from seams import app_app as app
from seams import browse, view

# Those that meet no store, or an index folder whose --scope part I walks elsewhere.
NO_STORE = {
    "index", "sync", "batch", "info", "demo", "tune", "learn", "evaluate",
    "config set", "config get",
    "config unset", "config list", "config path", "token make", "token list", "token revoke",
    "ltm path",
    "shards build", "shards info", "shards rebalance",
    "push", "pull", "follow",  # they move whole files, and tell sizes
}  # fmt: skip
SERVERS = {"serve", "mcp"}  # what they tell whom: tests/serve
# What a user may ask, knowing ids and words of others.
CASES: dict[str, list[list[str]]] = {
    "recall": [["oak disk"], ["zq"], ["", "--limit", "100"], ["oak", "--recipe", "hebb", "--json"]],
    "context": [["--query", "oak disk"], ["--query", "zq", "--limit", "100"]],
    "remember": [["oak tea", "--id", "walked", "--json"]],
    "get": [["m0"], ["m1", "--json"]],
    "list": [[], ["--json"], ["--tag", "zq"], ["--filter", '{"kind": "note"}']],
    "history": [["m0"], ["m1", "--json"]],
    "update": [["m0", "--text", "oak tea"], ["m1", "--importance", "3", "--json"]],
    "update-many": [['{"kind": "walked"}', "--id", "m0", "--kind", "note", "--json"]],
    "list-sessions": [[], ["--json"]],
    "list-users": [[], ["--json"]],
    "list-agents": [[], ["--json"]],
    "supersede": [["m0", "oak tea", "--json"], ["m1", "oak", "--new-id", "m2"]],
    "pin": [["m0"], ["m1", "--no-pinned", "--json"]],
    "link": [["near", "m0", "m1", "--json"]],
    "unlink": [["e0"], ["none", "--json"]],
    "links": [["m0"], ["m1", "--json"]],
    "remember-fact": [["oak", "is", "tall", "--json"]],
    "recall-facts": [["oak"], ["zq", "--json"], [""]],
    "list-facts": [[], ["--json"], ["--subject", "oak"]],
    "forget": [["m0", "m1", "--json"], ["--session-id", "s0", "--yes"],
               ["--kind", "note", "--tag", "zq", "--yes"]],
    "feedback": [[], ["--json"], ["oak disk", "m0", "--json"], ["oak", "m1", "none"]],
    "export": [[], ["--history"]],
    "import": [["FILE"]],
    "end-fact": [["m0"], ["none", "--at", "2026-01-01"]],
    "policy": [["walker"], ["walker", "shared"]],
    "reembed": [["--force", "--json"]],
    "doctor": [["--full", "--json"], ["--repair"]],
    "compact": [[], ["--json"]],
    "browse ls": [["/"], ["/shared"], ["/memories/note"], ["/sessions"], ["/graph"], ["/facts"]],
    "browse cat": [["/index.md"], ["/memories/note/m0.md"], ["/shared/bob/note/m0.md"],
                   ["/sessions/s0.md"], ["/graph/m0.md"]],
    "browse grep": [["zq", "--limit", "999"], ["oak", "/shared", "--json"]],
    "browse find": [["*"], ["m*", "/shared", "--json"]],
    "hm recall": [["oak disk"], ["zq", "--json"], ["oak.*", "--force-regex", "--session-id", "s0"]],
    "ltm save": [["walked", "oak tea"], ["m0", "oak tea"]],
    "ltm get": [["m0"], ["m1"]],
    "ltm search": [["oak"], ["zq"]],
    "ltm list": [[]],
    "ltm pin": [["m0"]],
    "ltm unpin": [["m0"]],
    "ltm supersede": [["m1", "walked-on", "oak tea"]],
    "ltm delete": [["m0"]],
    "ltm reembed": [["--force"]],
}  # fmt: skip
EVERYBODYS = {"import", "doctor", "compact"}  # take no user


def leaves(command: object, name: str = "") -> Iterator[str]:
    """The commands of a tree by name."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name
        return
    for word, one in inner.items():
        yield from leaves(one, f"{name} {word}".strip())


def run(world: World, viewer: Viewer, name: str, arguments: list[str], folder: Path) -> list[str]:
    """What a command says on both streams, once the store is closed for it."""
    place = {"--user": viewer.user, "--org": viewer.org, "--workspace": viewer.workspace}
    if name in ("policy", "list-users", "list-agents"):  # of an agent by its name, of all
        del place["--user"]
    options = [] if name in EVERYBODYS else [
        word for option, value in place.items() if value is not None for word in (option, value)
    ]  # fmt: skip
    if name.startswith("ltm "):  # which knows users alone, as scopes
        viewer = Viewer(viewer.user)
        options = [] if viewer.user is None else ["--scope", viewer.user]
    given = [word.replace("FILE", str(folder / "lines")) for word in arguments]
    at = {"LTM_DB": str(folder)} if name.startswith("ltm ") else {}
    words = [*name.split(), *given, *options, *(() if at else ("--path", str(folder)))]
    result = CliRunner().invoke(app, words, env=at)
    assert result.exception is None or isinstance(result.exception, SystemExit), (name, arguments)
    refusals = (0, 1, 5, 6) if name == "hm recall" else (0, 1)
    assert result.exit_code in refusals, (name, arguments, result.stderr)
    return leaks(world, viewer, [result.stdout, result.stderr])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(1)
    folder = Path(made.memory._store.database.folder)
    made.memory.close()
    monkeypatch.setenv("HYRECALL_CONFIG", str(folder.parent / "no.json"))
    monkeypatch.setattr(
        "hyrecall.memory.store.choose.embedder", lambda *_, **__: HashEmbedder(dim=DIM)
    )
    (folder / "lines").write_text(json.dumps({"format": 2}) + "\n")
    return made


def folder_of(world: World) -> Path:
    return Path(world.memory._store.database.folder)


def walk(world: World, viewer: Viewer, names: list[str]) -> set[str]:
    """The commands that told the viewer what is not theirs."""
    folder = folder_of(world)
    return {n for n in names for one in CASES[n] if run(world, viewer, n, one, folder)}


def test_every_command_has_a_case() -> None:
    assert set(leaves(typer.main.get_command(app))) == NO_STORE | SERVERS | set(CASES)


# One with an empty name, then the others: test_every_door asks as each of them.
PLAIN = VIEWERS[2]
MORE = [pytest.param(one, marks=pytest.mark.slow) for one in VIEWERS if one != PLAIN]


@pytest.mark.slow
@pytest.mark.parametrize("viewer", [PLAIN, *MORE], ids=str)
def test_no_command_tells(world: World, viewer: Viewer) -> None:
    assert walk(world, viewer, list(CASES)) == set()
    others = [user for user in ("alice", "bob") if user != viewer.user]
    with MemorySync.open(folder_of(world), embedder=None) as memory:
        for user in others:
            assert memory.get("m0", user_id=user) is not None


def test_an_audience_that_is_too_wide_would_be_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (view, browse):
        monkeypatch.setattr(module, "audience", everybody)
    told = walk(world, Viewer("alice"), ["browse grep", "browse cat"])
    assert told == {"browse grep", "browse cat"}


def test_everybodys_export_is_asked_for_by_name(world: World) -> None:
    folder = str(folder_of(world))
    result = CliRunner().invoke(app, ["export", "--everyone", "--path", folder])
    assert leaks(world, Viewer("alice"), result.stdout)
    refused = CliRunner().invoke(app, ["export", "--everyone", "--user", "alice", "--path", folder])
    assert refused.exit_code == 1
    assert not refused.stdout
