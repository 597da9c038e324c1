"""What a source file defines, and its code without comments: enough to check documents by."""

import ast
import re
from pathlib import Path

# Comments and literals; a literal keeps its quotes, so that code stays code.
_CXX_NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<quote>")(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_CXX_SUFFIX = (".hpp", ".cpp", ".cu", ".cuh", ".inc")
_NO_RETURN_TYPE = {"return", "else", "new", "throw", "case", "co_return", "co_await"}


def code_of(path: Path) -> str:
    """A file's code: no comments, no docstrings, runs of blanks as one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.unparse(_without_docstrings(ast.parse(text)))
    bare = _CXX_NOISE.sub(lambda found: '""' if found["quote"] else " ", text)
    return re.sub(r"\s+", " ", bare)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [s for s in body if not _is_text(s)] or [ast.Pass()]
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(
        getattr(statement.value, "value", None), str
    )


def defines(path: Path, name: str) -> bool:
    """Whether a file defines a function, class or constant; ``Class::method`` names both."""
    if path.suffix == ".py":
        return name in python_names(path)
    code = code_of(path)
    *scopes, last = name.split("::")
    return all(_is_class(code, scope) or f"{scope}::" in code for scope in scopes) and (
        _is_class(code, last) or _is_constant(code, last) or last in cxx_functions(code)
    )


def python_names(path: Path) -> set[str]:
    """Names of the functions, methods and classes that a Python file defines."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def _is_class(code: str, name: str) -> bool:
    return re.search(rf"\b(?:class|struct) {name} (?:final )?(?::[^;{{]*)?\{{", code) is not None


def _is_constant(code: str, name: str) -> bool:
    return re.search(rf"\bconstexpr [\w:<>]+ {name} =", code) is not None


def cxx_functions(code: str) -> set[str]:
    """Names of the functions that comment-free C++ defines, of whatever class."""
    found = set()
    for head in re.finditer(r"([\w>&*\]]+)\s+(?:\w+::)*(\w+)\(", code):
        if head[1] in _NO_RETURN_TYPE:
            continue
        after = code[_closing(code, head.end()) :]
        if re.match(r"\)\s*(?:const\s*)?(?:noexcept\s*)?\{", after):
            found.add(head[2])
    return found


def _closing(code: str, at: int) -> int:
    """The place of the parenthesis that closes the one before ``at``."""
    depth = 1
    while at < len(code):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1
    return at


def named_places(page: Path) -> list[tuple[str, str]]:
    """The pairs (file, name) that a page writes as `file:name`."""
    text = page.read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`([\w./]+\.(?:hpp|cpp|py)):([\w:]+)`", text)))


def sources(root: Path) -> list[Path]:
    """Every source file of the engine and the package."""
    return sorted(
        path
        for folder in ("csrc", "python")
        for path in (root / folder).rglob("*")
        if path.suffix in {".py", *_CXX_SUFFIX} and path.name != "unicode_tables.inc"
    )
