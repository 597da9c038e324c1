"""How tests drive the page, and what they ask it by scripts of their own."""

from __future__ import annotations

import time
from typing import Any

QUERY = "replica stopped following the primary"

FOCUS = """() => {
  const node = document.activeElement;
  if (node === document.body || node === null) return null;
  const styles = [node, ...node.querySelectorAll('rect')].map((one) => getComputedStyle(one));
  const isSeen = styles.some((style) =>
    (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2)
    || (style.stroke !== 'none' && parseFloat(style.strokeWidth) >= 3));
  const name = node.getAttribute('aria-label') || node.labels?.[0]?.textContent.trim()
    || node.textContent.trim();
  return [node.tagName, name.slice(0, 40), isSeen];
}"""
"""What has the focus: tag, name, and whether that can be seen; null for nothing."""

POOR_CONTRAST = """() => {
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const read = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    return [numbers.slice(0, 3).map((c) => c / 255), numbers[3] ?? 1];
  };
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [colour, alpha] = read(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return colour;
    }
    return [1, 1, 1];
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest('svg, .unseen, noscript, option')) continue;
    count += 1;
    const own = light(read(getComputedStyle(node).color)[0]);
    const [high, low] = [own, light(ground(node))].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) poor.push([walk.currentNode.data, contrast]);
  }
  return [count, poor];
}"""
"""How many texts are on the screen, and those whose contrast is below 4.5."""

MOVING = """() => [...document.querySelectorAll('*')].filter((one) => {
  const style = getComputedStyle(one);
  return style.transitionDuration !== '0s' || style.animationName !== 'none';
}).length"""

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def recall(page: Any, query: str = QUERY) -> None:
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_selector("#reply:not([aria-busy]) > *")


def texts(page: Any, selector: str) -> list[str]:
    return [one.strip() for one in page.locator(selector).all_inner_texts()]


def goto(page: Any, place: str, selector: str) -> None:
    page.evaluate("place => { location.hash = place; }", place)
    page.wait_for_selector(selector)


def wait_until(page: Any, condition: str, seconds: float = 10.0) -> None:
    """Wait until a JavaScript expression is true.

    Playwright's `wait_for_function` polls with `eval`, which the page's content security policy
    forbids; each `evaluate` goes through the debugger, which the policy does not bind.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"not true within {seconds} s: {condition}"
        page.wait_for_timeout(20)
