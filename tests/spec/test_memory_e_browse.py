"""Acceptance rows E: a store browsed as files, behind the boundary that recall has."""

import errno
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hyrecall import recipes
from hyrecall.memory import Browse, Episode, Fact, MemorySync
from seams import browse as module
from seams import memory_path, read_place

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUSE = {"org": "acme", "workspace": "lab"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemorySync]:
    with MemorySync.open(tmp_path / "agent.mem", embedder=None, recipe=recipes.honeycomb) as store:
        yield store


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


# ---- E36: the boundary ----

AGENTS = ("isolated", "shared", "group")


def canary(agent: str, visibility: str) -> str:
    return f"canary-{agent}-{visibility}"


@pytest.fixture
def house(memory: MemorySync) -> MemorySync:
    """Agents of each policy, in the house and in the next one, with a memory of each kind."""
    for org in ("acme", "bolt"):
        for agent in (*AGENTS, "fellow"):
            policy, group = ("group", "blue") if agent in ("group", "fellow") else (agent, None)
            memory.set_policy(agent, org=org, workspace="lab", policy=policy, policy_group=group)
            for visibility in ("private", "global"):
                text = canary(agent, visibility) if org == "acme" else f"canary-bolt-{agent}"
                memory.remember(
                    text, id=f"{agent}-{visibility}", user_id=agent, org=org, workspace="lab",
                    visibility=visibility, session_id=f"s-{agent}-{visibility}", pinned=True,
                )  # fmt: skip
                memory.remember_fact(
                    Fact(user_id=agent, org=org, workspace="lab", visibility=visibility,
                         subject=f"{agent}-{visibility}", predicate="says", object=text)
                )  # fmt: skip
                ends = [f"{agent}-{visibility}", "other"]
                memory.link(
                    ends, text, user_id=agent, org=org, workspace="lab", visibility=visibility
                )
    return memory


VISIBLE = {
    "isolated": {("isolated", "private"), ("isolated", "global")},
    "shared": {("shared", "private")} | {(one, "global") for one in (*AGENTS, "fellow")},
    "group": {("group", "private"), ("group", "global"), ("fellow", "global")},
}


def everything(files: Browse, agents: tuple[str, ...] = (*AGENTS, "fellow")) -> str:
    """All that can be got out of a browser, also by paths that it does not list."""
    told = [files.cat("/index.md")]
    listed = []
    for folder in ("/", "/memories", "/shared", "/sessions", "/facts", "/graph", "/pinned"):
        found = files.ls(folder)
        listed += found
        for inner in found:
            listed += files.ls(inner)
            for deeper in files.ls(inner):
                listed += files.ls(deeper)
    for agent in agents:
        for visibility in ("private", "global"):
            name = f"{agent}-{visibility}.md"
            listed += [f"/memories/episodic/{name}", f"/shared/{agent}/episodic/{name}"]
            listed += [f"/sessions/s-{name}", f"/facts/{name}", f"/graph/{name}"]
    told += [f"{path}\n{files.cat(path)}" for path in set(listed) if not path.endswith("/")]
    told += files.find("*")
    told += [line.text for line in files.grep("canary", limit=1000)]
    told += [line.text for line in files.grep("c.n", regex=True, limit=1000)]
    return "\n".join(told)


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("agent", AGENTS)
def test_E36_what_an_agent_may_read_is_the_same_by_every_command(
    house: MemorySync, agent: str
) -> None:
    view = house.agent(agent, **HOUSE)
    texts = {
        canary(whose, visibility)
        for whose in (*AGENTS, "fellow")
        for visibility in ("private", "global")
    }
    wanted = {canary(*one) for one in VISIBLE[agent]}
    recalled = {match.episode.text for match in view.search("canary", kind="episodic", limit=50)}
    assert recalled == wanted
    files = view.browse()
    told = everything(files)
    assert {text for text in texts if text in told} == wanted
    assert "bolt" not in told
    found = {line.text for line in files.grep("canary", "/memories")}
    found |= {line.text for line in files.grep("canary", "/shared")}
    assert found & texts == wanted
    by_name = {Path(path).stem for path in files.find("*-*.md") if "/fact/" not in path}
    assert by_name == {f"{whose}-{visibility}" for whose, visibility in VISIBLE[agent]}


def test_E36_an_audience_that_is_too_wide_would_be_seen(
    house: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seams import EVERYONE, AskedBy, Audience
    from seams import audience_audience as audience

    def leaky(connection: object, by: AskedBy) -> Audience:
        return audience(connection, AskedBy(by.org, by.workspace, EVERYONE))  # type: ignore[arg-type]

    monkeypatch.setattr(module, "audience", leaky)
    told = everything(house.agent("isolated", **HOUSE).browse())
    assert "canary-group-private" in told


# ---- E42: ls, cat, grep, find ----


def test_E42_each_command_maps_to_what_is_stored(memory: MemorySync) -> None:
    for number in range(3):
        memory.remember(
            Episode(id=f"m{number}", user_id="ann", text=f"turn {number}\nTea at {number}",
                    session_id="s1", occurred_at=at(number), tags=("tea",))
        )  # fmt: skip
    memory.remember("a note", id="n", user_id="ann", kind="note", pinned=True, occurred_at=at(9))
    memory.remember_fact(Fact(user_id="ann", subject="ann", predicate="lives in", object="Oslo"))
    memory.link(["m0", "m1"], "follows", user_id="ann", description="one after the other")
    files = memory.browse(user_id="ann")
    assert files.ls("/") == [
        "/index.md", "/memories/", "/shared/", "/sessions/", "/facts/", "/graph/", "/pinned/",
    ]  # fmt: skip
    assert files.ls("/memories") == ["/memories/episodic/", "/memories/fact/", "/memories/note/"]
    episodic = [f"/memories/episodic/m{number}.md" for number in (2, 1, 0)]
    assert files.ls("/memories/episodic/") == episodic
    assert files.ls("/pinned") == ["/memories/note/n.md"]
    assert files.ls("/sessions") == ["/sessions/s1.md"]
    assert files.ls("/facts") == ["/facts/ann.md"]
    assert files.ls("/graph") == ["/graph/m0.md", "/graph/m1.md"]
    assert files.ls("/shared") == files.ls("/memories/nothing") == files.ls("/what") == []
    page = files.cat(episodic[0])
    assert page.endswith("\nturn 2\nTea at 2\n")
    assert 'tags: ["tea"]' in page
    assert "lives in: Oslo" in files.cat("/facts/ann.md")
    assert files.cat("/graph/m0.md") == "- follows [m0, m1]: one after the other\n"
    assert files.find("m*.md") == episodic
    assert files.find("m[01].md", "/sessions/s1.md") == episodic[1:]
    found = files.grep("tea AT")
    assert [(line.path, line.number, line.text) for line in found] == [
        (path, 2, f"Tea at {number}") for path, number in zip(episodic, (2, 1, 0), strict=True)
    ]
    assert [line.text for line in files.grep("^tea.*[12]$", regex=True)] == ["Tea at 2", "Tea at 1"]
    assert files.grep("Oslo", "/facts/ann.md")
    assert not files.grep("Oslo", "/sessions")
    assert files.classify("/sessions/s1.md") == "session"


def test_E42_percent_and_underscore_are_themselves(memory: MemorySync) -> None:
    for key in ("100%", "1000", "a_b", "axb", "a/b", "..", "é b"):
        memory.remember(f"text of {key}", id=key, user_id="ann", kind="..")
    files = memory.browse(user_id="ann")
    assert [line.text for line in files.grep("100%")] == ["text of 100%"]
    assert [line.text for line in files.grep("a_b")] == ["text of a_b"]
    assert files.find("100%.md") == ["/memories/%2E%2E/100%25.md"]
    assert len(files.find("a?b.md")) == 3
    for path in files.ls("/memories/%2E%2E/"):
        assert f"text of {read_place(path).id}" in files.cat(path)
    assert len(files.ls("/memories/%2E%2E/")) == 7


def test_E42_listings_and_findings_are_capped(memory: MemorySync) -> None:
    memory.remember_batch(
        [Episode(id=f"m{n}", user_id="ann", text="tea", occurred_at=at(n)) for n in range(230)]
    )
    files = memory.browse(user_id="ann")
    newest = [f"/memories/episodic/m{n}.md" for n in range(229, 29, -1)]
    assert files.ls("/memories/episodic") == newest
    assert files.find() == newest
    assert [line.path for line in files.grep("tea")] == newest[:50]
    assert len(files.grep("tea", limit=1000)) == 230
    assert files.ls("/memories/episodic", limit=0) == files.grep("tea", limit=0) == []


def test_E42_a_session_is_its_newest_2_000_turns_as_they_were_spoken(memory: MemorySync) -> None:
    memory.remember_batch(
        [
            Episode(user_id="ann", text=f"turn {n:04}", session_id="s", occurred_at=at(n))
            for n in range(2_003)
        ]
    )
    page = memory.browse(user_id="ann").cat("/sessions/s.md")
    turns = [line for line in page.splitlines() if line.startswith("turn")]
    assert turns == [f"turn {n:04}" for n in range(3, 2_003)]


def test_E42_the_mount_is_taken_off_at_the_last_memory() -> None:
    for path in ("/index.md", "index.md", "/mnt/memory/index.md", "/memory/a/memory/index.md"):
        assert read_place(path).kind == "index"


@pytest.mark.parametrize("user", [None, "", "ann", ".", "..", "%", "%00", "a/b", "\x01", "~"])
@pytest.mark.parametrize("visibility", ["private", "global"])
def test_a_path_leads_back_to_its_memory(user: str | None, visibility: str) -> None:
    episode = Episode(id="..", kind="a b", user_id=user, visibility=visibility)
    path = memory_path(episode)
    place = read_place(path)
    assert (place.id, place.memory_kind) == ("..", "a b")
    assert (place.user, place.has_user) == (
        (user, True) if visibility == "global" else (None, False)
    )
    assert not {".", ".."} & set(path.split("/"))


# ---- E43, E44 ----


def test_E43_nothing_is_written(memory: MemorySync) -> None:
    memory.remember("turn", id="m", user_id="ann", session_id="s")
    files = memory.browse(user_id="ann")
    before = everything(files)
    for path in ("/sessions/s.md", "/memories/episodic/m.md", "/index.md", "/new.md"):
        for write in (
            lambda p: files.write(p, "x"), lambda p: files.append(p, "x"), files.rm,
            lambda p: files.cp(p, p), lambda p: files.mv(p, "/b.md"),
        ):  # fmt: skip
            with pytest.raises(PermissionError) as refused:
                write(path)
            assert refused.value.errno == errno.EPERM
    assert everything(files) == before


@pytest.mark.parametrize("n", [0, 1, 50, 51, 60])
def test_E44_the_index_has_sections_of_50_and_says_from_51_on_that_there_are_more(
    memory: MemorySync, n: int
) -> None:
    memory.remember_batch(
        [
            Episode(id=f"m{k}", user_id="ann", text=f"line {k} [x]\nmore", session_id=f"s{k}",
                    occurred_at=at(k), pinned=k == 0)
            for k in range(n)
        ]
    )  # fmt: skip
    page = memory.browse(user_id="ann").cat("/index.md")
    head, newest, sessions = page.partition("## Newest")[0], *page.split("## ")[-2:]
    assert ("## Pinned" in head) == (n > 0)
    shown = range(n - 1, max(n - 51, -1), -1)
    entries = [line for line in newest.splitlines() if line.startswith("- ")]
    assert entries == [
        f"- {at(k).date()} [line {k} (x) more](/memories/episodic/m{k}.md)" for k in shown
    ]
    assert [line for line in sessions.splitlines() if line.startswith("- ")] == [
        f"- [s{k}](/sessions/s{k}.md)" for k in shown
    ]
    for section in (newest, sessions):
        assert ("Only the newest 50 are shown" in section) == (n > 50)
        assert ("Nothing yet." in section) == (n == 0)
