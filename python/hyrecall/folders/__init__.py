"""Search over a folder of documents: read it, cut it into chunks, index them, follow its changes.

:func:`read` gives the chunks of a folder's files, :func:`build` their index, and :func:`sync`
brings the index to what the folder holds now; :func:`chunks` cuts a text. PDF files need the extra
``[pdf]``.
"""

from hyrecall.folders.cutting import Chunk, chunks
from hyrecall.folders.following import Synced, build, sync
from hyrecall.folders.reading import PATTERNS, FolderRead, read

__all__ = ["PATTERNS", "Chunk", "FolderRead", "Synced", "build", "chunks", "read", "sync"]
