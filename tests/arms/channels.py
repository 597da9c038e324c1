"""One batch through every arm and every follow-up, and all it says as text."""

from collections.abc import Sequence

import hyrecall as hr
from arms.world import GRAPH, SCHEMA, Doc, Draw, Edge, docs_table, edges_table, said
from hyrecall import arms
from seams import newest_rows, reply_of

TEXTS = ("oak", "fir tea", "(", "e.m")


def indexes(docs: Sequence[Doc], edges: Sequence[Edge]) -> tuple[hr.Index, hr.Graph]:
    index = hr.Index.build(docs_table(docs), SCHEMA)
    return index, hr.Graph.build(edges_table(edges), GRAPH, nodes=index)


def every_arm(graph: hr.Graph) -> tuple[arms.Arm, ...]:
    columns = ("id", "text", arms.Edges(graph), "data")
    return (
        arms.Regex(columns, on_bad="literal"),
        arms.EdgeLexical(graph),
        arms.Tags("tags", depth=2, partial=True),
        arms.Newest("at"),
        arms.Listed("hints"),
    )


def say_everything(
    index: hr.Index, graph: hr.Graph, scope: Sequence[str], hints: Sequence[str]
) -> str:
    """What a caller with this scope can learn."""
    where = said(scope)
    hits = index.recall(
        text=list(TEXTS),
        arms=every_arm(graph),
        candidates={"hints": [list(hints)] * len(TEXTS)},
        scope=where,
        limit=20,
        columns=("text", "tags"),
        expansion=hr.SharedTags("tags", n=9, hops=1),
    )
    out = [str(hits.to_list()), str(hits.trace.notes), str(hits.trace.arms)]
    for one in hits:
        for hit in one:
            out += [str(hit.explain()), repr([hit.evidence(arm.name) for arm in every_arm(graph)])]
    out.append(repr(arms.related(hits, "tags", columns=("text",))))
    out.append(repr([one.related for one in hits]))
    keys = [one.keys for one in hits]
    top = [one[:5] for one in keys]
    out.append(repr(graph.neighbours(top, scope=where, text=list(TEXTS[:2]) * 2, exclude=keys)))
    hot = [dict.fromkeys(hints, 1.0)] * len(TEXTS)
    out.append(repr([one.tolist() for one in graph.topical(hot, keys, scope=where)]))
    out.append(repr(graph.distances([list(hints)] * 2, scope=where)))
    _, segment, row = newest_rows(
        index._facts, index._state, reply_of(hits[0]).source.request, "at", 9
    )
    state = index._state
    held = [state.segments[s].rows for s in segment]
    out.append(repr([rows.slice(int(r), 1).to_pylist() for rows, r in zip(held, row, strict=True)]))
    return "\n".join(out)


def show() -> str:
    """What a fixed world says: the same in every process."""
    draw = Draw(20240607)
    docs, edges = draw.docs(50), draw.edges(30, 50)
    index, graph = indexes(docs, edges)
    return say_everything(index, graph, ("ann", "cy"), ("n3", "n1", "n4", "n15"))


if __name__ == "__main__":
    print(show())
