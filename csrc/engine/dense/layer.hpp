// A plane that a cohort of queries reads, block by block.
#pragma once

#include <optional>

#include "engine/dense/blocks_ahead.hpp"
#include "engine/dense/int8_plane.hpp"
#include "engine/dense/query_panels.hpp"

namespace hyrecall {

// The plane, and the queries' codes for it.
struct Layer {
  static constexpr std::size_t kAheadBytes = 16'384;  // far enough that memory answers in time

  Int8Plane const* plane = nullptr;
  std::uint32_t dim = 0;
  Row ahead_blocks = 0;  // between what is read and what is asked for
  std::optional<QueryPanels> panels;

  void begin(Int8Plane const& of, std::uint32_t of_dim) {
    plane = &of;
    dim = of_dim;
    std::size_t const block_bytes = cpu::int8_block_bytes(dim);
    ahead_blocks = static_cast<Row>((kAheadBytes + block_bytes - 1) / block_bytes);
  }
  std::uint8_t const* codes(Row block) const {
    return plane->codes.data() + block * cpu::int8_block_bytes(dim);
  }
  cpu::FirstPassRows rows(Row block, int n_blocks) const {
    return {codes(block), plane->scales.data() + block * kBlockRows,
            plane->residuals.data() + block * kBlockRows, n_blocks};
  }
};

}  // namespace hyrecall
