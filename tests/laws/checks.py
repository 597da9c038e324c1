"""The laws as functions of a subject: each draws its cases from seeds and raises ``LawBroken`` at
the first breach.

All of them return the number of cases that they saw hold.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from laws.registry import PLAIN, Entry
from laws.subject import Make, Subject
from oracle.corpus import ATTRIBUTES, Draw, Mix, draw_mix, draw_predicate, draw_rows
from oracle.documents import Call, Reply, Row, Scope, Shape
from oracle.life import Life
from oracle.recall import Oracle

CALLS_PER_TABLE = 6
QUERIES_PER_CALL = 8
Mixes = Callable[[Draw], Mix]


class LawBroken(AssertionError):  # noqa: N818 - the verdict of a check, not a fault of the program
    """A law does not hold; the message names the seed of the case."""


def tied_mix(draw: Draw) -> Mix:
    """A table in which nearly everything ties: three words, twins, vectors of few integers."""
    return Mix(
        n_rows=draw.choice((10, 30, 60)),
        n_tenants=3,
        vocabulary=("ash", "bay", "gro"),
        longest=2,
        twin=0.5,
        lattice=1.0,
    )


def large_mix(draw: Draw) -> Mix:
    """A table of several tiles and zones, with runs of ties at the cut."""
    return Mix(
        n_rows=draw.choice((127, 128, 129, 700, 1500)),
        n_tenants=draw.randint(1, 5),
        zipf=True,
        twin=draw.choice((0.0, 0.9)),
        lattice=draw.choice((0.0, 1.0)),
    )


def three_tiles(draw: Draw) -> Mix:
    """A large table of three tiles, the last of which is not full."""
    return replace(large_mix(draw), n_rows=300)


def compare_with(
    oracle: type[Oracle],
    make: Make,
    seeds: Iterable[int],
    mix: Mixes = draw_mix,
    entry: Entry = PLAIN,
) -> int:
    """Every reply is the oracle's: ids, order, bits (L1, L5, L7, L8)."""
    cases = 0
    for seed in seeds:
        draw = Draw(seed)
        shape = entry.shape(draw)
        rows = entry.rows(draw_rows(draw, shape, mix(draw)))
        subject, truth, guide = make(shape, rows), oracle(shape, rows), Oracle(shape, rows)
        for number in range(CALLS_PER_TABLE):
            call = entry.call(draw, guide, QUERIES_PER_CALL)
            for query, reply in enumerate(subject.recall(call)):
                expected = truth.recall(call, query)
                if reply != expected or signs(reply) != signs(expected):
                    raise LawBroken(
                        report(f"seed {seed}, call {number}", call, query, expected, reply)
                    )
                cases += 1
    return cases


def signs(reply: Reply) -> list[float]:
    """The signs of the scores, which tell 0 from -0."""
    return [1.0 if hit.score is None else math.copysign(1.0, hit.score) for hit in reply]


def report(where: str, call: Call, query: int, expected: Reply, got: Reply) -> str:
    """What one needs to see of a case that went wrong."""
    lines = [f"{where}, query {query}", repr(call.take([query])), "expected:", *map(repr, expected)]
    return "\n".join([*lines, "got:", *map(repr, got)])


def outcome(work: Callable[[], object]) -> object:
    """What a piece of work gives, be it an error."""
    try:
        return work()
    except Exception as error:  # an error is a reply too, to the letter
        return f"{type(error).__name__}: {error}"


def same_outcomes(
    where: str, worlds: tuple[Subject, Subject], work: Callable[[Subject], object]
) -> None:
    """A piece of work gives the same in two worlds, errors included."""
    left, right = (outcome(partial(work, world)) for world in worlds)
    if left != right:
        raise LawBroken(f"{where}:\n{left!r}\nagainst\n{right!r}")


def non_interference(make: Make, seeds: Iterable[int], entry: Entry = PLAIN) -> int:
    """Two worlds that share the authorised rows and nothing else give the same bytes (L2)."""
    cases = 0
    for seed in seeds:
        draw = Draw(seed)
        shape = entry.shape(draw)
        while not shape.cell:
            shape = entry.shape(draw)
        mix = replace(draw_mix(draw), n_rows=draw.choice((6, 20, 40)))
        rows = entry.rows(draw_rows(draw, shape, mix))
        cells = sorted({row.cell for row in rows}, key=repr)
        granted = frozenset(draw.sample(cells, draw.randint(1, len(cells))))
        mine = [row for row in rows if row.cell in granted]
        other = mingled(draw, mine, entry.rows(foreign_rows(draw, shape, granted)))
        worlds = make(shape, rows), make(shape, other)
        for number in range(3):
            where = f"seed {seed}, step {number}"
            call = entry.call(draw, Oracle(shape, mine), QUERIES_PER_CALL)
            narrowed = tuple(
                frozenset(draw.sample(sorted(granted, key=repr), draw.randint(0, len(granted))))
                for _ in call.scopes
            )
            call = replace(call, scopes=narrowed)
            same_outcomes(where, worlds, lambda world, call=call: world.recall_bytes(call))
            change = draw_change(draw, shape, mine, granted)
            step = f"{where}, {change[0]}"
            same_outcomes(step, worlds, lambda world, change=change: apply(world, change))
            mine = live_after(mine, change)
        cases += 1
    return cases


def foreign_rows(draw: Draw, shape: Shape, granted: Scope) -> list[Row]:
    """Random rows outside the granted cells: another number, often longer texts, of the same words
    and keys.
    """
    mix = Mix(n_rows=draw.choice((0, 1, 15, 60)), n_tenants=8, longest=draw.choice((3, 30)))
    return [row for row in draw_rows(draw, shape, mix) if row.cell not in granted]


def mingled(draw: Draw, first: Sequence[Row], second: Sequence[Row]) -> list[Row]:
    """Both, each in its own order."""
    turns = [0] * len(first) + [1] * len(second)
    draw.shuffle(turns)
    sources = iter(first), iter(second)
    return [next(sources[turn]) for turn in turns]


Change = tuple[str, tuple[object, ...]]


VERBS = {
    "add": 0.25,
    "refused": 0.33,
    "upsert": 0.5,
    "update": 0.63,
    "delete": 0.82,
    "delete_where": 0.87,
    "replace": 0.95,
    "compact": 1,
}


def draw_change(  # noqa: PLR0911 - a case each
    draw: Draw,
    shape: Shape,
    live: Sequence[Row],
    cells: Scope | None = None,
    verb: str | None = None,
) -> Change:
    """One step in the life of an index: a verb and its arguments; ``cells`` keeps it inside a
    scope. The verb is drawn if none is given; a "refused" one adds a row that is there.
    """
    mix = replace(draw_mix(draw), n_rows=draw.choice((1, 3, 12)), n_tenants=8)
    fresh = [
        row for row in draw_rows(draw, shape, mix, taken=live) if cells is None or row.cell in cells
    ]
    known = draw.sample(list(live), min(len(live), draw.randint(1, 4)))
    renewed = [
        replace(new, key=old.key, cell=old.cell) for new, old in zip(fresh, known, strict=False)
    ]
    kind = draw.random()
    verb = verb or next(name for name, most in VERBS.items() if kind < most)
    if verb == "add":
        return verb, (fresh,)
    if verb == "refused":  # if there is anything live
        return "add", ([*fresh, *known[:1]],)
    if verb == "upsert":
        return verb, ([*renewed, *fresh[len(renewed) :]],)
    if verb == "delete":
        keys = [row.key for row in known] + [-99 if shape.integer_keys else "absent"]
        return verb, (keys, draw_delete_scopes(draw, shape, known, keys, cells))
    if verb == "update":  # now and then of a document that is not there
        columns = (*shape.text_columns, *shape.dense, *ATTRIBUTES)
        absent = fresh[len(renewed) :][: draw.chance(0.2)]
        return verb, ([*renewed, *absent], draw.sample(columns, draw.randint(1, 3)))
    if verb in ("delete_where", "replace"):
        own = frozenset(row.cell for row in known) if shape.cell else frozenset({()})
        if verb == "replace":  # keys that are there may be of documents that stay
            return verb, ([*renewed[:2], *fresh[len(renewed) :]], own, draw_predicate(draw))
        return verb, (own, draw_predicate(draw) if draw.chance(0.7) else None)
    return "compact", ()


def draw_delete_scopes(
    draw: Draw, shape: Shape, known: Sequence[Row], keys: Sequence[object], cells: Scope | None
) -> list[Scope]:
    """A scope for each key: the key's own cell, that of another key, or none."""
    if not shape.cell:  # no scope is taken
        return [frozenset({()})] * len(keys)
    owners = [row.cell for row in known] or sorted(cells or (), key=repr)[:1]
    scopes = []
    for at in range(len(keys)):
        own = owners[at % len(owners)] if owners else None
        other = draw.choice(owners) if owners else None
        scopes.append(
            frozenset()
            if own is None or draw.chance(0.1)
            else frozenset({own if draw.chance(0.7) else other})
        )
    return scopes


def apply(subject: Subject, change: Change) -> object:
    """Make the change; the number of documents deleted, or None."""
    verb, arguments = change
    return getattr(subject, verb)(*arguments)


def live_after(rows: Sequence[Row], change: Change) -> list[Row]:
    """The live rows after a change, by definition; unchanged where it is refused."""
    life = Life(rows)
    if change[0] != "compact":
        outcome(lambda: getattr(life, change[0])(*change[1]))
    return life.rows


def no_history(make: Make, seeds: Iterable[int], steps: int = 10, entry: Entry = PLAIN) -> int:
    """After any sequence of changes the index replies as a fresh build of the live documents does
    (L3).
    """
    cases = 0
    for seed in seeds:
        draw = Draw(seed)
        shape = entry.shape(draw)
        live = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=draw.choice((0, 10, 30))))
        subject = make(shape, live)
        for number in range(steps):
            where = f"seed {seed}, step {number}"
            if draw.chance(0.1):
                subject = subject.reopen()
            else:
                change = draw_change(draw, shape, live)
                where = f"{where}, {change[0]}"
                follow(where, subject, Life(live), change)
                live = live_after(live, change)
            fresh = make(shape, live)
            call = entry.call(draw, Oracle(shape, live), 4)
            if subject.recall_bytes(call) != fresh.recall_bytes(call):
                raise LawBroken(
                    f"{where}: {call!r}\nfresh: {fresh.recall(call)}\ngot:   {subject.recall(call)}"
                )
            cases += 1
    return cases


def follow(where: str, subject: Subject, life: Life, change: Change) -> None:
    """The subject refuses what the definition refuses, and deletes as many."""
    if change[0] == "compact":
        subject.compact()
        return
    expected, got = outcome(lambda: apply(life, change)), outcome(lambda: apply(subject, change))
    is_refused = isinstance(expected, str)
    if is_refused != isinstance(got, str) or (not is_refused and expected != got):
        raise LawBroken(f"{where}: expected {expected!r}, got {got!r}")


def same_in_every_batch(
    make: Make, seeds: Iterable[int], sizes: Sequence[int], entry: Entry = PLAIN
) -> int:
    """A query's reply is the same alone, in batches of every size, and in any order of the batch
    (L4).
    """
    cases = 0
    for seed in seeds:
        draw = Draw(seed)
        shape = entry.shape(draw)
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=60))
        subject, guide = make(shape, rows), Oracle(shape, rows)
        call = entry.call(draw, guide, max(sizes))
        whole = subject.recall(call)
        for size in sizes:
            for first in range(0, min(len(whole), 4 * size), size):
                at = range(first, min(first + size, len(whole)))
                require_same(
                    f"seed {seed}, batch [{first}, {at.stop})", subject, call, list(at), whole
                )
                cases += 1
        order = draw.sample(range(len(whole)), len(whole))
        require_same(f"seed {seed}, shuffled", subject, call, order, whole)
    return cases


def require_same(
    where: str, subject: Subject, call: Call, at: Sequence[int], whole: Sequence[Reply]
) -> None:
    """A part of the batch, in this order, has the replies of the whole."""
    for query, reply in zip(at, subject.recall(call.take(at)), strict=True):
        if reply != whole[query]:
            raise LawBroken(report(where, call, query, whole[query], reply))


def limit_is_a_prefix(make: Make, seeds: Iterable[int], entry: Entry = PLAIN) -> int:
    """The reply for a smaller limit, or after an offset, is a slice of the reply for the depth
    (L6).
    """
    cases = 0
    for seed in seeds:
        draw = Draw(seed)
        shape = entry.shape(draw)
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=draw.choice((20, 60))))
        subject = make(shape, rows)
        depth = draw.choice((5, 20, 50))
        call = entry.call(draw, Oracle(shape, rows), 4)
        call = replace(call, limit=depth, offset=0, depth=depth)
        whole = subject.recall(call)
        for _ in range(6):
            limit = draw.randint(1, depth)
            offset = draw.randint(0, depth - limit)
            for query, reply in enumerate(
                subject.recall(replace(call, limit=limit, offset=offset))
            ):
                expected = whole[query][offset : offset + limit]
                if reply != expected:
                    raise LawBroken(
                        report(f"seed {seed}, [{offset}, +{limit})", call, query, expected, reply)
                    )
                cases += 1
    return cases
