// Tells a scan which block of a plane it reads next, a few blocks ahead, so that it can prefetch.
#pragma once

#include <bit>
#include <span>

#include "engine/dense/code_plane.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

inline constexpr Row kBlockRows = cpu::kInt8BlockRows;

// Whether a block of a tile has a row of the mask.
inline bool wants(TileMask rows, Row block) {
  return (rows.bits_from(block * kBlockRows) & 0xffff) != 0;
}

// In a scope of scattered cells the next block to read is not the next one in memory.
class BlocksAhead {
 public:
  BlocksAhead() = default;
  explicit BlocksAhead(std::span<SelectedTile const> tiles) : tiles_(tiles) {}

  Row next() {  // kNone32 at the end
    while (wanted_ == 0) {
      if (tiles_.empty()) return kNone32;
      for (Row block = 0; block < kTileBlocks; ++block)
        wanted_ |= (wants(tiles_.front().mask, block) ? 1u : 0u) << block;
      first_ = tiles_.front().tile * kTileBlocks;
      tiles_ = tiles_.subspan(1);
    }
    Row const at = first_ + static_cast<Row>(std::countr_zero(wanted_));
    wanted_ &= wanted_ - 1;
    return at;
  }

 private:
  std::span<SelectedTile const> tiles_;
  Row first_ = 0;             // first block of the current tile
  std::uint32_t wanted_ = 0;  // bits of its blocks that are still to be read
};

}  // namespace hyrecall
