// A filter on one segment as flat data that a device can evaluate: what engine/scope/filter.hpp's
// BoundFilter says, tile by tile from zone maps and row by row from values.
// engine/scope/tile_program.hpp writes the programs.
//
// A program is a tree in postfix order: tests push one level, joins replace their children's levels
// by one. No program needs more than kMaxFilterLevels, so the levels are the bits of a word.
#pragma once

#include <cstdint>
#include <span>

#include "core/formulas.hpp"
#include "core/types.hpp"
#include "core/zone.hpp"

namespace hyrecall {

inline constexpr int kMaxFilterLevels = 64;

enum class TileTestKind : std::uint32_t {
  kBetween,  // low <= code <= high
  kAnyOf,    // code is one of the program's codes [low, low + n)
  kIsNull,
  kAnd,  // of the last n levels; of none: every row
  kOr,   // of the last n levels; of none: no row
  kNot,  // of the last level
};

struct TileTest {
  TileTestKind kind = TileTestKind::kAnd;
  std::uint32_t column = 0;  // of the three tests
  std::uint64_t n = 0;       // codes (>= 1) of kAnyOf, levels of kAnd and kOr
  std::int64_t low = 0;
  std::int64_t high = 0;
};
static_assert(sizeof(TileTest) == 32);

struct TileProgramView {
  TileTest const* tests;
  std::uint32_t n_tests;
  std::int64_t const* codes;  // of each kAnyOf rising and distinct, NaN's never among a float's
};

// An attribute column in host memory, as engine/segment/attributes.hpp has it.
struct AttributeArrays {
  std::span<std::int64_t const> codes;
  std::span<std::int64_t const> offsets;  // empty: one value a row
  std::span<std::uint64_t const> valid;   // empty: every row has a value
  std::span<Zone const> zones;
};

// An AttributeColumn without its owners.
struct AttributeView {
  std::int64_t const* codes;
  std::int64_t const* offsets;  // null: one value a row
  std::uint64_t const* valid;   // null: every row has a value
  Zone const* zones;
  Row n_rows;
};

// Booleans, the last in bit 0.
struct LevelBits {
  std::uint64_t bits = 0;

  HYRECALL_HD void push(bool value) { bits = bits << 1 | (value ? 1 : 0); }
  HYRECALL_HD bool last() const { return (bits & 1) != 0; }
  HYRECALL_HD void join(std::uint64_t n, bool is_and) {
    std::uint64_t const top = n == 0 ? 0 : ~std::uint64_t{0} >> (64 - n);
    bool const value = is_and ? (bits & top) == top : (bits & top) != 0;
    bits = n >= 64 ? 0 : bits >> n;
    push(value);
  }
};

// Place of the first of n rising codes that is >= code; n if there is none.
HYRECALL_HD inline std::uint64_t first_code_from(std::int64_t const* codes, std::uint64_t n,
                                                 std::int64_t code) {
  std::uint64_t begin = 0;
  while (begin < n) {
    std::uint64_t const middle = begin + (n - begin) / 2;
    if (codes[middle] < code) {
      begin = middle + 1;
    } else {
      n = middle;
    }
  }
  return begin;
}

// ---- zone maps

HYRECALL_HD inline ZoneAnswer zone_answer(TileTest const& test, std::int64_t const* codes,
                                          AttributeView const& column, Row tile) {
  Zone const zone = column.zones[tile];
  if (test.kind == TileTestKind::kIsNull) {
    Row const rest = column.n_rows - tile * kTileRows;
    Row const n_rows = rest < kTileRows ? rest : kTileRows;
    return zone.n_null == 0        ? ZoneAnswer::kNone
           : zone.n_null == n_rows ? ZoneAnswer::kAll
                                   : ZoneAnswer::kSome;
  }
  bool const is_between = test.kind == TileTestKind::kBetween;
  // Only the range without ends reaches NaN, which zone.min and zone.max leave out.
  if (is_between && test.high == kNanCode && zone.n_nan > 0) return ZoneAnswer::kSome;
  if (zone.min > zone.max) return ZoneAnswer::kNone;
  bool overlaps = test.low <= zone.max && zone.min <= test.high;
  bool covers = test.low <= zone.min && zone.max <= test.high;
  if (!is_between) {
    std::int64_t const* const own = codes + test.low;
    std::uint64_t const first = first_code_from(own, test.n, zone.min);
    overlaps = first < test.n && own[first] <= zone.max;
    // Every integer of the zone is a code: they are distinct, so as many places on stands its end.
    std::uint64_t const span =
        static_cast<std::uint64_t>(zone.max) - static_cast<std::uint64_t>(zone.min);
    covers = overlaps && span < test.n - first && own[first + span] == zone.max;
  }
  if (!overlaps) return ZoneAnswer::kNone;
  return covers && zone.n_bare == 0 ? ZoneAnswer::kAll : ZoneAnswer::kSome;
}

// Equals BoundFilter::answer. columns: in the order that the program's filter was bound to.
HYRECALL_HD inline ZoneAnswer zone_answer(TileProgramView const& program,
                                          AttributeView const* columns, Row tile) {
  LevelBits some;  // a row may match
  LevelBits all;   // every row matches; never without `some` where there are rows
  for (std::uint32_t i = 0; i < program.n_tests; ++i) {
    TileTest const& test = program.tests[i];
    if (test.kind == TileTestKind::kAnd || test.kind == TileTestKind::kOr) {
      some.join(test.n, test.kind == TileTestKind::kAnd);
      all.join(test.n, test.kind == TileTestKind::kAnd);
    } else if (test.kind == TileTestKind::kNot) {
      std::uint64_t const turned = ~some.bits & 1;
      some.bits = (some.bits & ~std::uint64_t{1}) | (~all.bits & 1);
      all.bits = (all.bits & ~std::uint64_t{1}) | turned;
    } else {
      ZoneAnswer const one = zone_answer(test, program.codes, columns[test.column], tile);
      some.push(one != ZoneAnswer::kNone);
      all.push(one == ZoneAnswer::kAll);
    }
  }
  return all.last() ? ZoneAnswer::kAll : some.last() ? ZoneAnswer::kSome : ZoneAnswer::kNone;
}

// ---- rows

HYRECALL_HD inline bool code_passes(TileTest const& test, std::int64_t const* codes,
                                    std::int64_t code) {
  if (test.kind == TileTestKind::kBetween) return test.low <= code && code <= test.high;
  std::int64_t const* const own = codes + test.low;
  std::uint64_t const at = first_code_from(own, test.n, code);
  return at < test.n && own[at] == code;
}

HYRECALL_HD inline bool row_passes(TileTest const& test, std::int64_t const* codes,
                                   AttributeView const& column, Row row) {
  bool const has_value = column.valid == nullptr || (column.valid[row >> 6] >> (row & 63) & 1) != 0;
  if (test.kind == TileTestKind::kIsNull) return !has_value;
  if (!has_value) return false;
  if (column.offsets == nullptr) return code_passes(test, codes, column.codes[row]);
  for (std::int64_t at = column.offsets[row]; at < column.offsets[row + 1]; ++at) {
    if (code_passes(test, codes, column.codes[at])) return true;
  }
  return false;
}

// Equals the row's bit of BoundFilter::evaluate; row < n_rows.
HYRECALL_HD inline bool row_passes(TileProgramView const& program, AttributeView const* columns,
                                   Row row) {
  LevelBits levels;
  for (std::uint32_t i = 0; i < program.n_tests; ++i) {
    TileTest const& test = program.tests[i];
    if (test.kind == TileTestKind::kAnd || test.kind == TileTestKind::kOr) {
      levels.join(test.n, test.kind == TileTestKind::kAnd);
    } else if (test.kind == TileTestKind::kNot) {
      levels.bits ^= 1;
    } else {
      levels.push(row_passes(test, program.codes, columns[test.column], row));
    }
  }
  return levels.last();
}

}  // namespace hyrecall
