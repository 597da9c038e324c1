"""One suite for every way to a store and to an index: scenario x face.

A scenario is a test whose argument is ``store`` or ``index``: a short program over plain data that
asserts the same values at every face. A face names the verbs and options that it lacks;
``test_faces.py`` fails if it offers one of them. ``python -m tests.conformance`` prints the matrix.
"""

import pytest

pytest.register_assert_rewrite("conformance.faces", "conformance.index_worlds")
