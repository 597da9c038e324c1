"""A shop's search: what people type, slips of the pen, brands and prices to choose from, pages."""

import hyrecall as hr

GOODS = [
    {"id": 1, "title": "Red tea pot", "about": "Holds six cups.", "brand": "Ash", "price": 30.0},
    {"id": 2, "title": "Tea cup", "about": "Thin, for green tea.", "brand": "Bay", "price": 8.0},
    {"id": 3, "title": "Tea towel", "about": "Linen, dries a pot.", "brand": "Ash", "price": 6.5},
    {"id": 4, "title": "Coffee cup", "about": "Not for tea.", "brand": "Bay", "price": 9.5},
    {"id": 5, "title": "Kettle", "about": "Boils water for tea in a minute.", "price": 45.0},
    {"id": 6, "title": "Bread knife", "about": "Saws.", "brand": "Elm", "price": 24.0},
]
for thing in GOODS:
    thing["category"] = "tools" if thing["id"] == 6 else "drinks"

schema = hr.Schema(
    key="id",
    cell=None,  # everybody sees all goods
    text={"goods": hr.Text("title", "about", weights={"title": 3})},  # a title counts 3 times
    attributes=("brand", "category", "price"),  # to filter, sort and count by
)  # fmt: skip
index = hr.Index.build(GOODS, schema, analyzer=hr.Analyzer("unicode:english"))

PRICES = hr.Buckets("price", [0, 10, 25, None])
PAGE = 2  # goods on a page


def search(typed: str, page: int = 1, **asked) -> hr.QueryHits:
    """Return a page of what a person asks for; where no word is known, of what is spelt like it."""
    asked |= {"limit": PAGE, "offset": (page - 1) * PAGE, "facets": ["brand", PRICES]}
    if not typed.strip():  # a category to look through
        return index.recall_one(**asked)
    found = index.recall_one(text=hr.parse(typed), **asked)
    if found.total:
        return found
    near = " ".join(word if word.startswith("-") else f"{word}~" for word in typed.split())
    return index.recall_one(text=hr.parse(near), **asked)


def shown(heading: str, hits: hr.QueryHits) -> str:
    """Return a page as text: goods with their words marked, then the counts to choose from."""
    lines = [f"{heading}: {hits.total} found"]
    for hit in hits:
        title, about = (
            hit.snippet(40, column=column, before="*", after="*", escape=False)
            for column in ("title", "about")
        )
        brand = hit["brand"] or "-"
        lines.append(f"  {hit.rank}. {title:<16} {hit['price']:>6.2f}  {brand:<4} {about}")
    brands = ", ".join(f"{brand} ({count})" for brand, count in hits.facets["brand"])
    prices = ", ".join(
        f"{low} to {high} ({count})" if high else f"from {low} ({count})"
        for (low, high), count in hits.facets["price"]
    )
    return "\n".join([*lines, f"  brand: {brands}", f"  price: {prices}", ""])


# A word in a title comes before one in a description; the second page goes on from the first.
first, second = search("tea"), search("tea", page=2)
print(shown("tea, page 1", first), shown("tea, page 2", second), sep="\n")
assert first.total == second.total == 5
assert first.keys + second.keys == [2, 3, 1, 4]
assert first.facets["brand"] == [("Ash", 2), ("Bay", 2)]  # of all that match, not of the page
assert first.facets["price"] == [((0, 10), 3), ((10, 25), 0), ((25, None), 2)]

# What people type: a phrase, a word that must be there, one that must not.
without = search('+cup -coffee "green tea"')
print(shown("cup without coffee", without))
assert without.keys == [2, 1]  # and not 4

# A slip of the pen finds what was meant.
slip = search("ketle")
print(shown("ketle", slip))
assert [hit.highlights(column="title") for hit in slip] == [[(0, 6)]]

# A choice narrows the list; the cheapest first.
chosen = search("tea", filter=hr.Filter(brand="Ash", price=(None, 40)), sort="price")
print(shown("tea of Ash, cheapest first", chosen))
assert chosen.keys == [3, 1]
assert chosen[0].snippet(column="title") == "<mark>Tea</mark> towel"  # for a page of HTML

# A category without a text, and a new price, which is there for the next search.
assert search("", filter=hr.Filter(category="drinks"), sort=("price", "desc")).keys == [5, 1]
index.update([{"id": 5, "price": 25.0}])
drinks = search("", filter=hr.Filter(category="drinks"), sort=("price", "desc"))
print(shown("drinks, dearest first, after the sale began", drinks))
assert drinks.keys == [1, 5]
