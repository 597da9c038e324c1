// Rows of a scope as bits, for the document tiles that hold many of its ranges: ten thousand
// scattered cells cost a pass over a term's postings, not a search each.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace hyrecall {

inline constexpr std::size_t kFewRanges = 4;  // in a tile: each is found by search

class ScopeBits {
 public:
  ScopeBits() = default;
  // Of ranges that rise; at most 256 bytes a range, and 4 bytes a tile where there are any.
  explicit ScopeBits(std::span<RowRange const> ranges) {
    for (std::size_t i = 0; i < ranges.size();) {
      std::uint32_t const tile = ranges[i].begin / kDocTileRows;
      Row const first = tile * kDocTileRows;
      std::size_t end = i;
      while (end < ranges.size() && ranges[end].begin < first + kDocTileRows) ++end;
      std::size_t const from = i > 0 && ranges[i - 1].end > first ? i - 1 : i;
      if (end - from > kFewRanges) {
        place_.resize(tile + 1, kNone32);
        place_[tile] = static_cast<std::uint32_t>(words_.size());
        Words& words = words_.emplace_back(Words{});
        for (std::size_t r = from; r < end; ++r) {
          set(words, std::max(ranges[r].begin, first) - first,
              std::min(ranges[r].end - first, kDocTileRows));
        }
      }
      i = end;
    }
  }

  // A bit for each of a tile's rows; null: its ranges are few.
  std::uint64_t const* of_tile(std::uint32_t tile) const {
    return tile < place_.size() && place_[tile] != kNone32 ? words_[place_[tile]].data() : nullptr;
  }

 private:
  using Words = std::array<std::uint64_t, kDocTileRows / 64>;

  static void set(Words& words, Row begin, Row end) {
    while (begin < end) {
      Row const stop = std::min<Row>(end, (begin / 64 + 1) * 64);
      std::uint64_t const bits = ~std::uint64_t{0} >> (64 - (stop - begin));
      words[begin / 64] |= bits << (begin % 64);
      begin = stop;
    }
  }

  std::vector<std::uint32_t> place_;  // [tile] of its words, kNone32 = none
  std::vector<Words> words_;
};

}  // namespace hyrecall
