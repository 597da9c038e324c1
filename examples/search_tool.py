"""A search tool for several tenants: titles, bodies, filters, explanations, token budget.

A search reads words in title and body together, and vectors if the extra [local] is installed.
Each call names its tenant and sees no data of other tenants.
"""

import pyarrow as pa

import hyrecall as hr
from hyrecall.embed import StaticEmbedder

ROWS = [
    ("a1", "acme", "howto", 2024, "Replica lag", "A replica that lags answers with old rows."),
    ("a2", "acme", "policy", 2025, "Deploys", "Deploys run on Friday at noon, and by hand."),
    ("a3", "acme", "howto", 2026, "Disk full", "Drop the replica's slot first, then resize."),
    ("a4", "acme", "bill", 2026, "Invoices", "INV-2026-0042 of Bolt was sent in May."),
    ("b1", "bolt", "howto", 2026, "Replica", "Our replica is encrypted; admins have the key."),
]
NAMES = ("id", "tenant", "kind", "year", "title", "body")


class SearchTool:
    """Searches a table of documents for one tenant at a time."""

    def __init__(self, table: pa.Table) -> None:
        """Index the table."""
        self.embedder = StaticEmbedder() if StaticEmbedder.available() else None
        pages = [f"{row['title']}\n{row['body']}" for row in table.to_pylist()]
        vectors = {"embedding": self.embedder.embed(pages)} if self.embedder else {}
        schema = hr.Schema(
            key="id", cell="tenant", text={"page": hr.Text("title", "body")},
            vector=tuple(vectors), attributes=("kind", "year"),
        )  # fmt: skip
        english = hr.Analyzer("unicode:english")  # "replicas" finds "replica"
        self.index = hr.Index.build(table, schema, vectors=vectors, analyzer=english)

    def search(self, text: str, tenant: str, budget: int | None = None, **where) -> hr.QueryHits:
        """Return the best documents that pass the filter and together fit the token budget."""
        vector = self.embedder.embed([text])[0] if self.embedder else None
        recipe = hr.recipes.default.replace(shaping=(hr.Budget(budget),))
        return self.index.recall_one(
            text=text, vector=vector, scope=tenant, filter=hr.Filter(**where), recipe=recipe
        )

    def prompt(self, question: str, tenant: str, budget: int = 40) -> str:
        """Return a prompt with as many documents as fit the budget."""
        hits = self.search(question, tenant, budget)
        return "\n".join([f"Question: {question}", *(f"[{hit.key}] {hit.text}" for hit in hits)])


tool = SearchTool(pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in ROWS]))
print(tool.search("replicas lagging", "acme"))
print(tool.search("replicas", "acme", kind="howto", year=(2025, None))[0].explain())
assert tool.search("INV-2026-0042", "acme")[0].key == "a4"
assert "a4" not in tool.search("INV-2026-0042", "bolt").keys
print(tool.prompt("what to do when the disk is full", "acme"))
