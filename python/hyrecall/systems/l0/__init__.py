"""l0-memory: notes by key in scopes, its command and its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.systems.l0.notes import Note as Note
    from hyrecall.systems.l0.notes import NoteHit as NoteHit
    from hyrecall.systems.l0.notes import NoteHits as NoteHits
    from hyrecall.systems.l0.notes import Notes as Notes
else:
    __getattr__ = lazily(
        __name__,
        {
            "notes": (
                "Note",
                "NoteHit",
                "NoteHits",
                "Notes",
            ),
        },
    )

__all__ = ["Note", "NoteHit", "NoteHits", "Notes"]
