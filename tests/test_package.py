"""The package as a whole: what importing costs, what it ships, whether the stub is true."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hyrecall
from hyrecall import _core
from hyrecall.errors import DeviceUnavailableError, OptionError
from seams import runtime

PACKAGE = Path(hyrecall.__file__).parent

NUMPY_FIRST = ("numpy", "hyrecall.index")

# A parameter list: the positional names, the names with a default, the keyword-only names.
Signature = tuple[list[str], list[str], list[str]]


def run_python(code: str) -> str:
    env = {"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_no_optional_or_heavy_package() -> None:
    code = "import hyrecall.index, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run_python(code)))
    heavy = {"torch", "tokenizers", "Stemmer", "pandas", "polars", "ml_dtypes", "typer", "rich"}
    heavy |= {"wordllama", "safetensors", "scipy", "faiss", "matplotlib", "ir_measures"}
    heavy |= {"apsw", "pydantic", "platformdirs", "asyncio", "ssl", "huggingface_hub"}
    assert "hyrecall._core" in loaded
    assert loaded & heavy == set()


def test_importing_takes_at_most_four_times_what_numpy_takes() -> None:
    # In turns, of the processor: the same import takes 0.4 s on one machine and 1 on another.
    code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    least = dict.fromkeys(NUMPY_FIRST, float("inf"))
    for _ in range(12):  # the least of several: other work on the machine only adds to a time
        for name in NUMPY_FIRST:
            least[name] = min(least[name], float(run_python(code.format(name))))
        if least["hyrecall.index"] < 4 * least["numpy"]:
            return
    pytest.fail(f"the least processor seconds of 12 imports: {least}")


def test_importing_loads_no_cuda_library() -> None:
    code = "import hyrecall.index; print(open('/proc/self/maps').read())"
    maps = run_python(code)
    assert "_core" in maps
    assert "libcuda" not in maps
    assert "hyrecall_cuda" not in maps


def test_the_version_is_one() -> None:
    if not list(PACKAGE.parent.glob("hyrecall-*.dist-info")):
        pytest.skip("hyrecall runs from its sources: there is no installed metadata")
    assert metadata.version("hyrecall") == hyrecall.__version__


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "_core" / "__init__.pyi").is_file()


def test_every_public_name_is_there() -> None:
    assert [name for name in hyrecall.__all__ if not hasattr(hyrecall, name)] == []
    assert sorted(hyrecall.__all__) == sorted(set(hyrecall.__all__))


# ---- the stub ----


def signature(arguments: ast.arguments) -> Signature:
    positional = [*arguments.posonlyargs, *arguments.args]
    n_defaults = len(arguments.defaults)
    with_default = [a.arg for a in positional[len(positional) - n_defaults :]]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    with_default += [a.arg for a, default in keywords if default is not None]
    return [a.arg for a in positional], with_default, [a.arg for a in arguments.kwonlyargs]


def runtime_signature(function: object) -> Signature:
    """Read what pybind11 writes on the first line of every docstring."""
    doc = inspect.getdoc(function)
    assert doc is not None
    definition = ast.parse(f"def {doc.splitlines()[0]}: ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return signature(definition.args)


Entry = Signature | str


def stub_entries(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Entry]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            if node.name.startswith("__") and node.name not in ("__init__", "__len__"):
                continue
            decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
            if "property" in decorators:
                yield prefix + node.name, "property"
            else:
                yield prefix + node.name, signature(node.args)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, "class"
            yield from stub_entries(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id, "value"


def runtime_entries(holder: object, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    for name, given in vars(holder).items():
        value = getattr(given, "__func__", given) if isinstance(given, staticmethod) else given
        hidden = name.startswith("_") and name not in ("__init__", "__len__")
        if hidden or type(value).__name__ == "wrapper_descriptor":
            continue
        if isinstance(value, (type, ModuleType)):
            yield prefix + name, "class"
            if isinstance(value, ModuleType) or not issubclass(value, BaseException):
                yield from runtime_entries(value, f"{prefix}{name}.")
        elif isinstance(value, property):
            yield prefix + name, "property"
        elif callable(value):
            yield prefix + name, runtime_signature(value)
        else:
            yield prefix + name, "value"


def test_the_stub_names_every_binding_with_its_parameters() -> None:
    stub: dict[str, Entry] = {}
    for path in (PACKAGE / "_core").glob("*.pyi"):
        prefix = "" if path.stem == "__init__" else f"{path.stem}."
        if prefix:
            stub[path.stem] = "class"
        entries = stub_entries(ast.parse(path.read_text()).body, prefix)
        stub |= {k: v for k, v in entries if not k.removeprefix(prefix).startswith("_")}
    assert stub.pop("HyrecallError.argument") == "value"  # set on instances
    bound = dict(runtime_entries(_core))
    assert len(bound) > 100
    assert {k: v for k, v in stub.items() if bound.get(k) != v} == {}
    assert set(bound) == set(stub)


def test_a_stub_that_forgets_a_default_is_told_apart() -> None:
    tree = ast.parse("def dots(query: int, rows: int, dtype: str) -> int: ...")
    assert dict(stub_entries(tree.body))["dots"] != runtime_signature(_core.arithmetic.dots)
    tree = ast.parse('def dots(query: int, rows: int, dtype: str = "float32") -> int: ...')
    assert dict(stub_entries(tree.body))["dots"] == runtime_signature(_core.arithmetic.dots)


# ---- devices ----


def test_devices_never_raise_and_say_why_there_are_none() -> None:
    report = runtime.cuda_report()
    assert runtime.devices() == report.devices
    assert bool(report.devices) == (report.problem == "")
    for ordinal, found in enumerate(report.devices):
        assert found.device == f"cuda:{ordinal}"
        assert found.compute_capability >= (7, 5)
        assert found.memory_bytes > 2**30


def test_cpu_and_auto_need_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> runtime.CudaReport:
        raise AssertionError("looked for a device")

    monkeypatch.setattr(runtime, "cuda_report", fail)
    runtime.check_device("cpu")
    runtime.check_device("auto")


@pytest.mark.parametrize("named", ["cuda:64", "cuda:99"])  # more than a process can see
def test_a_named_device_is_refused_by_name_and_with_a_reason(named: str) -> None:
    message = rf"^device: expected a CUDA device, got {named}: .{{10}}"
    with pytest.raises(DeviceUnavailableError, match=message) as info:
        runtime.check_device(named)
    assert info.value.argument == "device"


@pytest.mark.parametrize(
    "named", ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", "cuda:١", "", None, 0]
)
def test_what_is_no_device_is_refused(named: object) -> None:
    with pytest.raises(OptionError, match=r"^device: expected 'cpu', 'cuda:N' or 'auto', got"):
        runtime.check_device(named)  # type: ignore[arg-type]


def test_a_device_call_without_a_library_names_the_device(tmp_path: Path) -> None:
    assert _core.device.describe(str(tmp_path))["problem"].startswith("libhyrecall_cuda.so")
    with pytest.raises(DeviceUnavailableError, match=r"got cuda:2: libhyrecall_cuda\.so could not"):
        _core.device.formulas(str(tmp_path), 2, "log", np.ones((1, _core.device.MAX_ARITY)))
