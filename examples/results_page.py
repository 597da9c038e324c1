"""A page of results as HTML for several tenants: marks, facets and pages as links, safe texts.

A server would call ``page()`` for each request. This program serves one request to itself.
"""

import threading
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import hyrecall as hr

PAGE = 2  # results on a page
SCRIPT = "<script>alert('tea')</script>"
NOTES = [
    {"id": 1, "tenant": "acme", "kind": "note", "text": f"How to brew tea {SCRIPT}"},
    {"id": 2, "tenant": "acme", "kind": "note", "text": "Green tea & black tea"},
    {"id": 3, "tenant": "acme", "kind": 'bill "May"', "text": "Tea, 4 pounds: 30.00"},
    {"id": 4, "tenant": "bolt", "kind": "note", "text": "The secret tea of Bolt"},
]
TOKENS = {"token-of-ann": "acme", "token-of-bob": "bolt"}  # who asks decides what is seen

schema = hr.Schema(key="id", cell="tenant", text="text", attributes="kind")
index = hr.Index.build(NOTES, schema, analyzer=hr.Analyzer("unicode:english"))


def page(tenant: str, address: str) -> str:
    """Return the page of an address such as ``/?q=tea&kind=note&page=2``, for one tenant."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    typed, kind = asked.get("q", ""), asked.get("kind")
    number = int(asked["page"]) if asked.get("page", "").isdecimal() else 1
    number = min(max(number, 1), 1000)  # an address can say anything
    hits = index.recall_one(
        text=hr.parse(typed) if typed.strip() else None,  # without a text: all, by age
        scope=tenant,  # from the token, never from the address
        filter=hr.Filter(kind=kind) if kind else None,
        facets="kind",
        limit=PAGE,
        offset=(number - 1) * PAGE,
    )

    def link(label: str, **changed: str | int) -> str:
        query = urlencode({"q": typed} | ({"kind": kind} if kind else {}) | changed)
        return f'<a href="/?{escape(query)}">{escape(label)}</a>'

    # A snippet is escaped already; all other texts are escaped here.
    found = "".join(f"<li>{hit.snippet(80)}</li>\n" for hit in hits)
    kinds = " ".join(link(f"{name} ({n})", kind=name) for name, n in hits.facets["kind"])
    n_pages = -(-hits.total // PAGE)
    pages = " ".join(link(str(at), page=at) for at in range(1, n_pages + 1) if at != number)
    return (
        f'<!doctype html>\n<meta charset="utf-8">\n<title>{escape(typed)}</title>\n'
        f'<form><input name="q" value="{escape(typed)}"></form>\n'
        f'<p>{hits.total} found</p>\n<ol start="{(number - 1) * PAGE + 1}">\n{found}</ol>\n'
        f"<p>Kinds: {kinds}</p>\n<p>Pages: {pages}</p>\n"
    )


class Handler(BaseHTTPRequestHandler):
    """Answers GET for the tenant of the caller's token."""

    def do_GET(self) -> None:
        """Write one page."""
        tenant = TOKENS.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        body = page(tenant, self.path).encode() if tenant else b""
        self.send_response(200 if tenant else 401)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


with HTTPServer(("127.0.0.1", 0), Handler) as server:
    serving = threading.Thread(target=server.handle_request, daemon=True)
    serving.start()
    address = f"http://127.0.0.1:{server.server_port}/?q=tea"
    with urlopen(Request(address, headers={"Authorization": "Bearer token-of-ann"})) as reply:
        html = reply.read().decode()
    serving.join()
print(html)
assert "<p>3 found</p>" in html
assert '<a href="/?q=tea&amp;page=2">2</a>' in html
assert "Green <mark>tea</mark> &amp; black <mark>tea</mark>" in html
assert 'kind=bill+%22May%22">bill &quot;May&quot; (1)</a>' in html

# What a text or an address says is shown and never run.
hostile = page("acme", "/?" + urlencode({"q": SCRIPT, "kind": SCRIPT, "page": "9" * 30}))
assert "<script" not in html + hostile
assert "&lt;script&gt;" in html
assert "&lt;script&gt;" in hostile
# Another tenant: other documents, counts and kinds. What acme keeps changes nothing.
assert "<p>1 found</p>" in page("bolt", "/?q=tea")
assert "Bolt" not in page("acme", "/?q=secret")
assert "<p>3 found</p>" in page("acme", "/")
