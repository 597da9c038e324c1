"""Many tenants, one index: each query of a batch sees only its own cells."""

import pyarrow as pa

import hyrecall as hr

table = pa.table(
    {
        "id": ["p1", "p2", "s1", "s2"],
        "owner": ["alice", "bob", "team", "team"],
        "visibility": ["private", "private", "shared", "shared"],
        "text": [
            "my salary goes up in June",
            "my salary was late in May",
            "salaries are paid on the 25th",
            "the office is closed on the 1st of May",
        ],
    }
)
schema = hr.Schema(key="id", cell=("owner", "visibility"), text="text")
index = hr.Index.build(table, schema, analyzer=hr.Analyzer("snowball:english"))

team = ("team", "shared")
hits = index.recall(
    text=["salary", "salary", "salary"],
    scope=[
        hr.Scope([("alice", "private"), team]),  # alice: her own and the team's
        hr.Scope([("bob", "private"), team]),
        team,  # a guest sees one cell
    ],
)
for who, reply in zip(("alice", "bob", "guest"), hits, strict=True):
    print(who, reply.keys)

# Scores, counts and the order of equal scores depend only on the authorised cells:
# what alice reads does not change when bob writes.
before = index.recall_one(text="salary", scope=("alice", "private"))[0].score
index.add(
    pa.table(
        {
            "id": ["p3"],
            "owner": ["bob"],
            "visibility": ["private"],
            "text": ["salary salary salary"],
        }
    )
)
assert index.recall_one(text="salary", scope=("alice", "private"))[0].score == before
