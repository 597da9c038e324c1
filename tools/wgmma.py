"""Write csrc/kernels/cuda/wgmma.cuh: products of a warpgroup, one function a kind and a width.

Inline assembly must name every register of a sum, up to 128 of them.

    python tools/wgmma.py
"""

from pathlib import Path

TARGET = Path(__file__).parents[1] / "csrc" / "kernels" / "cuda" / "wgmma.cuh"
# Kind, C++ type of a sum, constraint of its registers, the instruction behind m64nN, what follows
# the predicate (signs of both factors and, of 16-bit types, that both lie row by row), and the
# widths of the scans that multiply it.
KINDS = (
    ("Int8", "std::int32_t", "+r", "k32.s32.s8.s8", "", (32, 128, 256)),
    ("Bfloat16", "float", "+f", "k16.f32.bf16.bf16", ", 1, 1, 0, 0", (32, 128)),
)
HEAD = """\
// Written by tools/wgmma.py: products of a warpgroup, one function a kind and a width.
//
// sums (+)= 64 rows x queries over 32 bytes of each; PTX ISA, wgmma.mma_async. Without `adds` the
// old sums are dropped. sums[n] are those of queries 8 n to 8 n + 7, as test_scores wants them.
#pragma once

namespace hyrecall::cuda {
"""


def function(kind: str, sum_type: str, constraint: str, shape: str, tail: str, width: int) -> str:
    """Return the source of one function."""
    count = width // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"{constraint}"(sums[{i // 4}][{i % 4}])' for i in range(count))
    return f"""
__device__ __forceinline__ void multiply_group({kind}, {sum_type} (&sums)[{width // 8}][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {{
  asm volatile(
      "{{\\n.reg .pred adds;\\nsetp.ne.b32 adds, %{count + 2}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{width}{shape} {{{registers}}}, "
      "%{count}, %{count + 1}, adds{tail};\\n}}\\n"
      : {operands}
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}}
"""


def main() -> None:
    """Write the file."""
    functions = "".join(function(*kind, width) for *kind, widths in KINDS for width in widths)
    TARGET.write_text(f"// clang-format off\n{HEAD}{functions}\n}}  // namespace hyrecall::cuda\n")


if __name__ == "__main__":
    main()
