"""What the service sends as the page, without a browser."""

import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("httpx2", reason="the test client needs httpx2")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from seams import page

FOLDER = Path(page.__file__).parent
SOURCES = sorted(FOLDER.glob("*.js"))


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.include_router(page.router())
    return TestClient(app)


def test_every_file_of_the_folder_is_served_with_its_type_and_nothing_else_is(
    client: TestClient,
) -> None:
    there = {path.name for path in FOLDER.iterdir() if path.suffix in {".js", ".css", ".svg"}}
    assert there == set(page.FILES)
    for name, media_type in page.FILES.items():
        reply = client.get(f"/page/{name}")
        assert reply.status_code == 200
        assert reply.headers["content-type"] == media_type
        assert reply.content == (FOLDER / name).read_bytes()
    for name in ("__init__.py", "index.html", "..%2F__init__.py", "nothing.js", "%2e%2e"):
        assert client.get(f"/page/{name}").status_code == 404, name


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/icon.svg"])
def test_every_reply_has_a_policy_that_allows_no_inline_script_and_no_other_host(
    client: TestClient, path: str
) -> None:
    headers = client.get(path).headers
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    for name in ("script-src", "style-src", "img-src", "connect-src"):
        assert policy[name] == "'self'"
    for name in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[name] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_page_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/page/main.js")
    again = client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    other = client.get("/page/dom.js", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_the_document_holds_no_inline_script_style_or_handler() -> None:
    text = (FOLDER / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_script_makes_markup_from_text_or_asks_another_host(path: Path) -> None:
    text = path.read_text("utf-8")
    sinks = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
    )
    assert re.findall(sinks, text) == []
    assert set(re.findall(r"https?://[^\s\"'`]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert len(text.splitlines()) <= 400


def test_the_token_is_kept_in_session_storage_and_nowhere_else() -> None:
    kept = [path.name for path in SOURCES if "sessionStorage" in path.read_text("utf-8")]
    assert kept == ["api.js"]
    for path in SOURCES:
        assert not re.search(r"localStorage|indexedDB|document\.cookie", path.read_text("utf-8"))


# ---- contrast ----


def palette(*, dark: bool) -> dict[str, tuple[float, ...]]:
    """The colours of the style sheet, as it says them."""
    text = (FOLDER / "base.css").read_text("utf-8")
    light_part, dark_part = text.split("@media (prefers-color-scheme: dark)", 1)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light_part))
    if dark:
        colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark_part))
    return {
        name: tuple(int(given[at : at + 2], 16) / 255 for at in (1, 3, 5))
        for name, given in colours.items()
    }


def linear(value: float) -> float:
    """A channel of sRGB in linear light."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [linear(one) for one in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_of_text_and_of_arms_stand_out_from_every_ground(dark: bool) -> None:
    colours = palette(dark=dark)
    for ground in ("ground", "raised", "sunken"):
        for text in ("ink", "soft", "link", "warn"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for shape in ("edge", "focus", *(f"arm-{at}" for at in range(6))):
            assert contrast(colours[shape], colours[ground]) >= 3, (shape, ground)
    for text, ground in (
        ("new", "new-ground"),
        ("gone", "gone-ground"),
        ("warn", "warn-ground"),
        ("ink", "mark"),
    ):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


# Machado, Oliveira and Fernandes 2009, severity 1: what a dichromat sees, in linear light.
SEEN = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def lab(light: list[float]) -> list[float]:
    """CIELAB under D65, of linear light."""
    r, g, b = (min(max(one, 0.0), 1.0) for one in light)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    f = [one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z)]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


def distance(one: list[float], other: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["trichromacy", *SEEN])
def test_the_six_colours_of_arms_differ_for_the_colour_blind(kind: str, dark: bool) -> None:
    colours = palette(dark=dark)
    rows = SEEN.get(kind, ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    seen = []
    for at in range(6):
        light = [linear(one) for one in colours[f"arm-{at}"]]
        seen.append(lab([sum(w * c for w, c in zip(row, light, strict=True)) for row in rows]))
    for at, one in enumerate(seen):
        for before, other in enumerate(seen[:at]):
            assert distance(one, other) >= 20, (before, at)
