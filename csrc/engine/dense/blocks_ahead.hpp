// The blocks of a plane that a scan will read, some of them ahead of it.
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

// In a scope of scattered cells they are not the next ones in memory.
class BlocksAhead {
 public:
  BlocksAhead() = default;
  explicit BlocksAhead(std::span<SelectedTile const> tiles) : tiles_(tiles) {}

  Row next() {  // kNone32: there is none
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
  Row first_ = 0;             // block of the tile at hand
  std::uint32_t wanted_ = 0;  // its blocks that are left
};

}  // namespace hyrecall
