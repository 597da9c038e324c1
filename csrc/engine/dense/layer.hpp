// A plane (heads, or the int8 plane) that a cohort of queries reads block by block.
#pragma once

#include <optional>

#include "engine/dense/blocks_ahead.hpp"
#include "engine/dense/code_plane.hpp"
#include "engine/dense/query_panels.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {

// The plane, and the queries' codes for it.
struct Layer {
  static constexpr std::size_t kAheadBytes = 16'384;  // far enough to hide the latency of memory

  CodePlane const* plane = nullptr;
  std::uint32_t dim = 0;
  std::size_t block_bytes = 0;
  cpu::FirstPassKernels const* kernels = nullptr;
  Row ahead_blocks = 0;  // from the block that is read to the one that is prefetched
  std::optional<QueryPanels> panels;

  // by: the kernels for planes of 8 bits.
  void begin(CodePlane const& of, std::uint32_t of_dim, cpu::FirstPassKernels const& by) {
    plane = &of;
    dim = of_dim;
    block_bytes = cpu::block_bytes(dim, of.bits);
    kernels = of.bits == CodeBits::k8 ? &by : &cpu::kernels().nibble_pass;
    ahead_blocks = static_cast<Row>((kAheadBytes + block_bytes - 1) / block_bytes);
  }
  std::uint8_t const* codes(Row block) const { return plane->codes.data() + block * block_bytes; }
  // Kernels prefetch only codes, so this prefetches scales; near the end of the plane, nothing.
  void ask_for_scales(Row block) const {
    if ((std::size_t{block} + 1) * kBlockRows > plane->scales.size()) return;
    __builtin_prefetch(plane->scales.data() + block * kBlockRows, 0, 2);
    __builtin_prefetch(plane->residuals.data() + block * kBlockRows, 0, 2);
  }
  cpu::FirstPassRows rows(Row block, int n_blocks) const {
    return {codes(block), plane->scales.data() + block * kBlockRows,
            plane->residuals.data() + block * kBlockRows, n_blocks};
  }
};

}  // namespace hyrecall
