// The few plain types that every layer shares.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace hyrecall {

using Row = std::uint32_t;     // a document's number in one segment, dense from 0
using TermId = std::uint32_t;  // a term's number in one lexical column, by order of first use
using Seq = std::int64_t;      // insertion number, never reused

inline constexpr std::uint32_t kNone32 = std::numeric_limits<std::uint32_t>::max();

// Rows of a tile, the unit in which scope, live bits and filter are combined: two machine words and
// one zone-map entry.
inline constexpr Row kTileRows = 128;

// Rows of a document tile, whose lexical scores are summed together: 32 KiB of float32 sums stay in
// the first-level cache while one term after the other is added.
inline constexpr unsigned kDocTileBits = 13;
inline constexpr Row kDocTileRows = Row{1} << kDocTileBits;

struct RowRange {
  Row begin;  // first row
  Row end;    // one past the last row
};

// One bit a row of a tile; bit i stands for row tile * kTileRows + i.
struct TileMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static constexpr TileMask all() { return {~std::uint64_t{0}, ~std::uint64_t{0}}; }
  // Bits [begin, end) of the tile, 0 <= begin <= end <= kTileRows.
  static constexpr TileMask range(Row begin, Row end) { return below(end) & ~below(begin); }
  static constexpr TileMask below(Row end) {
    auto const word = [](Row n) {
      return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    };
    return {word(end), end > 64 ? word(end - 64) : 0};
  }

  constexpr bool any() const { return (low | high) != 0; }
  constexpr bool is_all() const { return (low & high) == ~std::uint64_t{0}; }
  constexpr int count() const { return std::popcount(low) + std::popcount(high); }
  constexpr bool test(Row i) const { return ((i < 64 ? low >> i : high >> (i - 64)) & 1) != 0; }
  // Bits [first, first + 32), first a multiple of 16.
  constexpr std::uint32_t bits_from(Row first) const {
    std::uint64_t const word = first >= 64   ? high >> (first - 64)
                               : first == 48 ? low >> 48 | high << 16
                                             : low >> first;
    return static_cast<std::uint32_t>(word);
  }
  constexpr void set(Row i) { (i < 64 ? low : high) |= std::uint64_t{1} << (i & 63); }

  friend constexpr TileMask operator&(TileMask a, TileMask b) {
    return {a.low & b.low, a.high & b.high};
  }
  friend constexpr TileMask operator|(TileMask a, TileMask b) {
    return {a.low | b.low, a.high | b.high};
  }
  friend constexpr TileMask operator~(TileMask a) { return {~a.low, ~a.high}; }
  friend constexpr bool operator==(TileMask, TileMask) = default;
};

// Calls f(i) for every set bit, in rising order.
template <typename F>
void for_each_bit(TileMask mask, F&& f) {
  for (std::uint64_t word = mask.low; word != 0; word &= word - 1)
    f(static_cast<Row>(std::countr_zero(word)));
  for (std::uint64_t word = mask.high; word != 0; word &= word - 1)
    f(static_cast<Row>(64 + std::countr_zero(word)));
}

}  // namespace hyrecall
