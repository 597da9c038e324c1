"""Where a face does something else on purpose, by scenario and face, with the reason."""

from __future__ import annotations

_IN_PYTHON = ("MemorySync", "Memory", "agent's view", "2nd process")

DIFFERENCES: dict[tuple[str, str], str] = {
    **{
        (
            "test_a_blank_text_is_refused",
            face,
        ): "Python keeps what a program gives it: an input alone"
        for face in _IN_PYTHON
    },
    ("test_A23_a_limit_of_0_gives_nothing", "MCP"): "a model that asks for none is told so",
    ("test_metadata_of_64_levels_is_the_most", "REST"): "a body has 16 levels of JSON at most",
}
