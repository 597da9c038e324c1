// Rows of a scope as bits, for the document tiles that hold many of its ranges: ten thousand
// scattered cells cost a pass over a term's postings, not a search each.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/posting_list.hpp"

namespace hyrecall {

inline constexpr std::size_t kFewRanges = 4;  // in a tile: each is found by search

struct TileBits {
  std::uint32_t tile;
  std::array<std::uint64_t, kDocTileRows / 64> words;
};

// Of ranges that rise; at most 256 bytes a range.
inline std::vector<TileBits> scope_bits(std::span<RowRange const> ranges) {
  std::vector<TileBits> out;
  for (std::size_t i = 0; i < ranges.size();) {
    std::uint32_t const tile = ranges[i].begin / kDocTileRows;
    Row const first = tile * kDocTileRows;
    std::size_t end = i;
    while (end < ranges.size() && ranges[end].begin < first + kDocTileRows) ++end;
    std::size_t const from = i > 0 && ranges[i - 1].end > first ? i - 1 : i;
    if (end - from > kFewRanges) {
      TileBits& bits = out.emplace_back(TileBits{tile, {}});
      for (std::size_t r = from; r < end; ++r) {
        Row const last = std::min(ranges[r].end - first, kDocTileRows);
        for (Row row = std::max(ranges[r].begin, first) - first; row < last; ++row)
          bits.words[row / 64] |= std::uint64_t{1} << (row % 64);
      }
    }
    i = end;
  }
  return out;
}

}  // namespace hyrecall
