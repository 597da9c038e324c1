"""Which file of csrc may include which: reads every `#include` line."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The folders of csrc/ as floors, lowest first: a file includes its own folder and lower floors.
# A file that lies beside folders stands for itself where it is on another floor than these.
CPP_FLOORS = (
    {"core"},
    {"text", "kernels"},
    {"kernels/shared"},
    {"kernels/cpu", "kernels/cuda"},
    {"device"},
    {"engine/doc_ref"},
    {"engine/top_k", "engine/segment"},
    {"engine/request"},
    {"engine/scope"},
    {"engine/dense", "engine/lexical", "engine/related", "engine/fusion"},
    {
        "engine/segment_columns",
        "engine/shaping",
        "engine/merge_parts",
        "engine/part_arrays",
        "engine/evidence",
        "engine/pool_on_device",
    },
    {"engine/recall"},
    {
        "engine/completion",
        "engine/explain",
        "engine/hits",
        "engine/matched",
        "engine/second_look",
    },
    {"bindings"},
)
# Floors below, but another matter: a folder and what none of its files includes.
CPP_APART = {
    "kernels": {"text"},
    "kernels/shared": {"text"},
    "kernels/cpu": {"text"},
    "kernels/cuda": {"text"},
    "device": {"text", "kernels/cpu", "kernels/cuda"},
    "engine": {"kernels/cuda"},
    "bindings": {"kernels/cuda"},
}
# What the host and the library of the device say to each other.
ABI = "kernels/shared/abi.hpp"
KNOW_ABI = {"kernels/shared", "kernels/cuda", "device"}
# A header that only one folder may include.
ONLY_IN = {"pybind11/": "bindings", "Python.h": "bindings", "cuda": "kernels/cuda"}

# getenv() may crash while a thread changes os.environ, so that it needs the GIL.
READS_ENVIRONMENT = re.compile(r"\bgetenv\b|\benviron\b")
ENVIRONMENT_IS_READ_IN = "kernels/settings.cpp"


def cpp_files(root: Path) -> list[Path]:
    suffixes = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
    return sorted(p for p in (root / "csrc").rglob("*") if p.suffix in suffixes)


def cpp_place(file: str) -> str:
    """Return the folder of a file of csrc/, or the file itself where CPP_FLOORS names it."""
    folder, _, name = file.rpartition("/")
    stem = f"{folder}/{name.split('.')[0]}"
    return stem if any(stem in floor for floor in CPP_FLOORS) else folder


def cpp_faults(root: Path) -> Iterator[str]:
    floor_of = {place: at for at, floor in enumerate(CPP_FLOORS) for place in floor}
    tops = {place.split("/")[0] for place in floor_of}
    for path in cpp_files(root):
        inside = path.relative_to(root / "csrc").as_posix()
        place = cpp_place(inside)
        text = path.read_text()
        if place not in floor_of:
            yield f"{inside} has no place in CPP_FLOORS"
            continue
        if READS_ENVIRONMENT.search(text) and inside != ENVIRONMENT_IS_READ_IN:
            yield f"{inside} reads the environment: only {ENVIRONMENT_IS_READ_IN} may"
        for include in re.findall(r'#include\s+[<"]([^>"]+)[>"]', text):
            other = cpp_place(include)
            if include.split("/")[0] in tops and other != place:
                apart = CPP_APART.get(place, set()) | CPP_APART.get(place.split("/")[0], set())
                if other not in floor_of:
                    yield f"{inside} includes {include}: it has no place in CPP_FLOORS"
                elif floor_of[other] == floor_of[place]:
                    yield f"{inside} includes {include}: beside it"
                elif floor_of[other] > floor_of[place]:
                    yield f"{inside} includes {include}: upward"
                elif other in apart:
                    yield f"{inside} includes {include}: another matter"
                elif include == ABI and place not in KNOW_ABI:
                    yield f"{inside} includes {include}: only what is of a device knows it"
            for start, home in ONLY_IN.items():
                is_there = include.startswith(start) and "/" not in include[len("cuda") :]
                is_there = is_there or (start != "cuda" and include.startswith(start))
                if is_there and not inside.startswith(home + "/"):
                    yield f"{inside} includes {include}: only {home}/ may"


def test_includes_point_downward_only() -> None:
    assert list(cpp_faults(ROOT)) == []


def test_every_folder_has_a_floor_and_every_floor_a_folder() -> None:
    assert len(cpp_files(ROOT)) > 40
    places = {cpp_place(p.relative_to(ROOT / "csrc").as_posix()) for p in cpp_files(ROOT)}
    assert places == set().union(*CPP_FLOORS)


PLANTED_CPP = [
    ("core/types.hpp", '#include "engine/segment/segment.hpp"', "upward"),
    ("text/a.cpp", '#include "kernels/int8_bound.hpp"', "beside it"),
    ("kernels/int8_bound.hpp", '#include "kernels/shared/dense_rows.hpp"', "upward"),
    ("kernels/shared/a.hpp", '#include "kernels/cpu/dot.hpp"', "upward"),
    ("kernels/cpu/a.cpp", '#include "text/analyzer.hpp"', "another matter"),
    ("kernels/cpu/a.cpp", '#include "device/device.hpp"', "upward"),
    ("device/device.cpp", '#include "engine/request/request.hpp"', "upward"),
    ("device/device.cpp", "#include <cuda_runtime.h>", "only kernels/cuda/ may"),
    ("engine/segment/segment.hpp", '#include "engine/dense/column.hpp"', "upward"),
    ("engine/segment/cells.cpp", '#include "engine/request/request.hpp"', "upward"),
    ("engine/request/request.hpp", '#include "engine/scope/audience.hpp"', "upward"),
    ("engine/scope/scope_bits.hpp", '#include "engine/lexical/posting_list.hpp"', "upward"),
    ("engine/dense/scan.cpp", '#include "engine/lexical/bm25.hpp"', "beside it"),
    ("engine/lexical/scan.cpp", '#include "engine/dense/column.hpp"', "beside it"),
    ("engine/related/tags.cpp", '#include "engine/fusion/fusion.hpp"', "beside it"),
    ("engine/fusion/fusion.cpp", '#include "engine/shaping/shaping.hpp"', "upward"),
    ("engine/shaping/shaping.cpp", '#include "engine/recall.hpp"', "upward"),
    ("engine/top_k.hpp", '#include "engine/request/request.hpp"', "upward"),
    ("engine/doc_ref.hpp", '#include "engine/top_k.hpp"', "upward"),
    ("engine/recall.cpp", '#include "bindings/take.hpp"', "upward"),
    ("engine/recall.cpp", "#include <pybind11/numpy.h>", "only bindings/ may"),
    ("engine/dense/a.cpp", '#include "kernels/shared/abi.hpp"', "only what is of a device"),
    ("engine/dense/a.cpp", '#include "kernels/cuda/status.cuh"', "another matter"),
    ("engine/dense/a.cpp", '#include "engine/new.hpp"', "it has no place"),
    ("engine/new.hpp", "", "has no place"),
    (
        "engine/recall.cpp",
        'auto const* isa = std::getenv("HYRECALL_ISA");',
        "reads the environment",
    ),
]


@pytest.mark.parametrize(("place", "line", "fault"), PLANTED_CPP)
def test_a_planted_include_is_found(tmp_path: Path, place: str, line: str, fault: str) -> None:
    path = tmp_path / "csrc" / place
    path.parent.mkdir(parents=True)
    path.write_text(f"#pragma once\n{line}\n")
    faults = list(cpp_faults(tmp_path))
    assert len(faults) == 1
    assert fault in faults[0]


def lambdas_with_logic(text: str) -> list[str]:
    """Return the head of every lambda of more than one statement within a `bind_` function."""
    found = []
    for function in re.split(r"^void bind_", text, flags=re.MULTILINE)[1:]:
        body = function[: function.index("\n}\n")]
        for head in re.finditer(r"\[[^\[\]]*\]\s*\(", body):
            start = body.index("{", head.end())
            depth, at = 0, start
            while True:
                depth += {"{": 1, "}": -1}.get(body[at], 0)
                if depth == 0:
                    break
                at += 1
            if body[start:at].count(";") > 1:
                found.append(body[head.start() : start].strip())
    return found


def test_a_binding_names_what_it_binds() -> None:
    files = sorted((ROOT / "csrc" / "bindings").glob("bind_*.cpp"))
    assert len(files) > 10
    assert {f.name: found for f in files if (found := lambdas_with_logic(f.read_text()))} == {}


def test_a_binding_with_logic_of_its_own_would_be_seen() -> None:
    text = """
void bind_one(py::module_& m) {
  m.def("a", [](int x) { return x; });
  m.def("b", [](std::vector<int> const& x) {
    int const y = x[0];
    return y;
  });
}
"""
    assert lambdas_with_logic(text) == ["[](std::vector<int> const& x)"]
