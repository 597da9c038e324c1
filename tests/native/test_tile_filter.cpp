// Flat filter programs against the BoundFilter that they are written from, on every tile and row;
// and broken ones, which the comparison must notice.
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/tile_program.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

using Kind = FilterProgram::Kind;

// ---- columns

enum Place : std::uint32_t { kInts, kFloats, kTexts, kIntLists, kFloatLists, kTextLists, kPlaces };

// The same values for a while, so that tiles are constant, then others; sorted at times.
struct Runs {
  Rng& rng;
  std::int64_t value = 0;
  std::size_t left = 0;

  std::int64_t next() {
    if (left == 0) {
      left = 1 + (rng.below(3) == 0 ? rng.below(std::size_t{400}) : rng.below(std::size_t{9}));
      value = rng.below(std::int64_t{12}) - 4;
    }
    left -= 1;
    return value;
  }
};

double float_of(std::int64_t value) {
  if (value == -4) return std::numeric_limits<double>::quiet_NaN();
  return value == 7 ? std::numeric_limits<double>::infinity() : static_cast<double>(value) / 2;
}
std::string text_of(std::int64_t value) {
  return std::string(static_cast<std::size_t>(value + 4) % 5, static_cast<char>('a' + value % 3));
}

template <typename T>
AttributeColumn nullable_lists(std::vector<std::optional<std::vector<T>>> const& lists) {
  std::vector<std::int64_t> offsets{0};
  std::vector<T> values;
  std::vector<bool> valid;
  for (auto const& list : lists) {
    if (list) values.insert(values.end(), list->begin(), list->end());
    valid.push_back(list.has_value());
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  std::vector<std::uint8_t> const bits = bits_of(valid);
  if constexpr (std::is_same_v<T, std::string>) {
    return build_list_column(offsets, {bits.data(), 0}, strings_of(values), {});
  } else {
    return build_list_column(offsets, {bits.data(), 0}, std::span<T const>(values), {});
  }
}

template <typename T, typename Convert>
AttributeColumn scalars(Rng& rng, Row n_rows, int one_null_in, Convert convert) {
  Runs runs{rng};
  std::vector<std::optional<T>> values;
  for (Row row = 0; row < n_rows; ++row) {
    T value = convert(runs.next());
    bool const is_null = one_null_in > 0 && rng.below(one_null_in) == 0;
    values.push_back(is_null ? std::nullopt : std::optional<T>(std::move(value)));
  }
  return scalar_column(values);
}

template <typename T, typename Convert>
AttributeColumn lists(Rng& rng, Row n_rows, int one_null_in, Convert convert) {
  Runs runs{rng};
  std::vector<std::optional<std::vector<T>>> all;
  for (Row row = 0; row < n_rows; ++row) {
    std::vector<T> list;
    for (int i = rng.below(4); i > 0; --i) list.push_back(convert(runs.next()));
    bool const is_null = one_null_in > 0 && rng.below(one_null_in) == 0;
    all.push_back(is_null ? std::nullopt : std::optional(std::move(list)));
  }
  return nullable_lists(all);
}

std::vector<AttributeColumn> random_columns(Rng& rng, Row n_rows) {
  auto const same = [](std::int64_t value) {
    return value == 7 ? std::numeric_limits<std::int64_t>::max() : value;
  };
  auto const nulls = [&] { return std::vector{0, 0, 1, 3, 200}[rng.below(std::size_t{5})]; };
  std::vector<AttributeColumn> columns;
  columns.push_back(scalars<std::int64_t>(rng, n_rows, nulls(), same));
  columns.push_back(scalars<double>(rng, n_rows, nulls(), float_of));
  columns.push_back(scalars<std::string>(rng, n_rows, nulls(), text_of));
  columns.push_back(lists<std::int64_t>(rng, n_rows, nulls(), same));
  columns.push_back(lists<double>(rng, n_rows, nulls(), float_of));
  columns.push_back(lists<std::string>(rng, n_rows, nulls(), text_of));
  return columns;
}

// ---- filters

std::int64_t float_code_of(double value) {
  return build_scalar_column(std::span<double const>(&value, 1), {}).codes[0];
}

std::int64_t random_code(Rng& rng, std::uint32_t column) {
  if (rng.below(12) == 0) return std::numeric_limits<std::int64_t>::max();
  if (rng.below(12) == 0) return std::numeric_limits<std::int64_t>::min();
  std::int64_t const value = rng.below(std::int64_t{14}) - 5;
  return column == kFloats || column == kFloatLists ? float_code_of(float_of(value)) : value;
}

FilterProgram random_test(Rng& rng) {
  FilterProgram test;
  test.column = rng.below(std::uint32_t{kPlaces});
  bool const is_text = test.column == kTexts || test.column == kTextLists;
  auto const text = [&] { return text_of(rng.below(std::int64_t{12}) - 4); };
  switch (rng.below(5)) {
    case 0:
      test.kind = Kind::kIsNull;
      break;
    case 1:
    case 2:
      test.kind = is_text ? Kind::kTextAnyOf : Kind::kCodesAnyOf;
      for (int i = rng.below(rng.below(4) == 0 ? 20 : 5); i > 0; --i) {
        if (is_text) {
          test.texts.push_back(text());
        } else {
          test.codes.push_back(random_code(rng, test.column));
        }
      }
      break;
    default:
      test.kind = is_text ? Kind::kTextBetween : Kind::kCodesBetween;
      test.low = random_code(rng, test.column);
      test.high = random_code(rng, test.column);
      if (rng.below(3) > 0 && test.low > test.high) std::swap(test.low, test.high);
      if (rng.below(3) > 0) test.text_low = text();
      if (rng.below(3) > 0) test.text_high = text();
  }
  return test;
}

FilterProgram joined(Kind kind, std::vector<FilterProgram> children) {
  FilterProgram node;
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

FilterProgram random_filter(Rng& rng, int depth) {
  if (depth == 0 || rng.below(4) == 0) return random_test(rng);
  if (rng.below(3) == 0) return joined(Kind::kNot, {random_filter(rng, depth - 1)});
  std::vector<FilterProgram> children;
  int const n_children = rng.below(16) == 0 ? rng.below(30) : rng.below(4);
  for (int i = 0; i < n_children; ++i)
    children.push_back(random_filter(rng, depth - 1 - rng.below(depth)));
  return joined(rng.below(2) == 0 ? Kind::kAnd : Kind::kOr, std::move(children));
}

// ---- the comparison

struct Case {
  std::vector<AttributeColumn> columns;
  std::optional<BoundFilter> bound;
  TileProgram program;
  Row n_rows;
  // What is compared with the filter; planted bugs write here.
  std::vector<AttributeView> views;
  std::vector<std::vector<Zone>> zones;

  Case(Rng& rng, Row n_rows_, FilterProgram const& filter)
      : columns(random_columns(rng, n_rows_)), n_rows(n_rows_) {
    std::vector<AttributeColumn const*> pointers;
    for (AttributeColumn const& column : columns) {
      pointers.push_back(&column);
      views.push_back(view_of(column));
      zones.emplace_back(column.zones.begin(), column.zones.end());
    }
    bound.emplace(filter, pointers, n_rows);
    program = flatten(*bound);
    for (std::size_t i = 0; i < views.size(); ++i) views[i].zones = zones[i].data();
  }
  Case(Case const&) = delete;
  Case& operator=(Case const&) = delete;
};

struct Seen {
  std::size_t answers[3] = {};
  std::size_t rows[2] = {};
};

void check_equal_to_bound(Case const& c, Seen& seen) {
  for (Row tile = 0; tile * kTileRows < c.n_rows; ++tile) {
    ZoneAnswer const answer = zone_answer(c.program.view(), c.views.data(), tile);
    TileMask const expected = c.bound->evaluate(tile);
    Row const n = std::min(kTileRows, c.n_rows - tile * kTileRows);
    for (Row i = 0; i < n; ++i) {
      bool const passes = row_passes(c.program.view(), c.views.data(), tile * kTileRows + i);
      CHECK_EQ(passes, expected.test(i));
      seen.rows[passes ? 1 : 0] += 1;
    }
    CHECK(answer != ZoneAnswer::kNone || !expected.any());
    CHECK(answer != ZoneAnswer::kAll || expected == TileMask::below(n));
    CHECK(answer == c.bound->answer(tile));
    seen.answers[static_cast<int>(answer)] += 1;
  }
}

constexpr Row kSizes[] = {1, 127, 128, 129, 300, 640, 1000};

TEST(tile_filter_equals_the_bound_filter_on_every_tile_and_row) {
  Rng rng(1);
  Seen seen;
  std::size_t n_kinds[6] = {};
  for (int round = 0; round < 1500; ++round) {
    Case const c(rng, kSizes[rng.below(std::size(kSizes))], random_filter(rng, round % 6));
    check_equal_to_bound(c, seen);
    for (TileTest const& test : c.program.tests) n_kinds[static_cast<int>(test.kind)] += 1;
  }
  for (std::size_t n : seen.answers) CHECK(n > 500);
  for (std::size_t n : seen.rows) CHECK(n > 100'000);
  for (std::size_t n : n_kinds) CHECK(n > 300);
}

// The most levels that a program holds at a time.
std::size_t levels_of(TileProgram const& program) {
  std::size_t n = 0, most = 0;
  for (TileTest const& test : program.tests) {
    bool const joins = test.kind == TileTestKind::kAnd || test.kind == TileTestKind::kOr;
    std::size_t const taken = joins ? test.n : test.kind == TileTestKind::kNot ? 1 : 0;
    CHECK(taken <= n);
    n = n - taken + 1;
    most = std::max(most, n);
  }
  CHECK_EQ(n, 1u);
  return most;
}

// Every node has so many children, alternately kAnd and kOr.
FilterProgram full_tree(Rng& rng, std::size_t width, int depth) {
  if (depth == 0) return random_test(rng);
  std::vector<FilterProgram> children;
  for (std::size_t i = 0; i < width; ++i) children.push_back(full_tree(rng, width, depth - 1));
  return joined(depth % 2 == 0 ? Kind::kAnd : Kind::kOr, std::move(children));
}

// The worst to evaluate in the order given: tests first, the deeper child last.
FilterProgram staircase(Rng& rng, int depth) {
  FilterProgram filter = random_test(rng);
  for (int i = 0; i < depth; ++i) {
    std::vector<FilterProgram> children{random_test(rng), random_test(rng), filter};
    filter = joined(Kind::kNot, {joined(i % 2 == 0 ? Kind::kAnd : Kind::kOr, std::move(children))});
  }
  return filter;
}

TEST(tile_filter_of_any_shape_fits_the_levels) {
  Rng rng(2);
  Seen seen;
  auto const check = [&](FilterProgram const& filter, std::size_t most) {
    Case const c(rng, 300, filter);
    CHECK(levels_of(c.program) <= most);
    check_equal_to_bound(c, seen);
  };
  check(staircase(rng, 500), 3);
  check(full_tree(rng, 1000, 1), 8);
  check(full_tree(rng, 9, 4), 29);  // 7 wait at each of 4 nodes
  check(full_tree(rng, 2, 12), 13);
  check(full_tree(rng, 64, 2), 15);
  for (std::size_t n : {0u, 1u, 2u, 7u, 8u, 9u, 15u, 16u, 63u, 64u, 65u}) {
    check(full_tree(rng, n, 1), 8);
    check(joined(Kind::kNot, {full_tree(rng, n, 1)}), 8);
  }
}

TEST(tile_filter_joins_up_to_64_levels) {
  for (std::uint64_t n = 0; n <= 64; ++n) {
    for (bool const is_and : {false, true}) {
      for (std::uint64_t odd = 0; odd <= n; ++odd) {  // odd == n: all the same
        LevelBits levels;
        if (n < 64) levels.push(true);  // below, left alone
        for (std::uint64_t i = 0; i < n; ++i) levels.push((i == odd) != is_and);
        levels.join(n, is_and);
        CHECK_EQ(levels.last(), (odd < n) != is_and);
        if (n < 64) CHECK_EQ(levels.bits >> 1, 1u);
      }
    }
  }
}

// ---- planted bugs

bool is_caught(std::function<void(Case&)> const& plant) {
  Rng rng(3);
  Seen seen;
  try {
    for (int round = 0; round < 200; ++round) {
      Case c(rng, kSizes[rng.below(std::size(kSizes))], random_filter(rng, round % 4));
      plant(c);
      check_equal_to_bound(c, seen);
    }
  } catch (Failure const&) {
    return true;
  }
  return false;
}

template <typename F>
std::function<void(Case&)> in_tests(F f) {
  return [f](Case& c) {
    for (TileTest& test : c.program.tests) f(test);
  };
}
template <typename F>
std::function<void(Case&)> in_zones(F f) {
  return [f](Case& c) {
    for (auto& zones : c.zones) {
      for (Zone& zone : zones) f(zone);
    }
  };
}

TEST(tile_filter_planted_bugs_in_a_program_are_caught) {
  CHECK(!is_caught([](Case&) {}));
  CHECK(is_caught(in_tests([](TileTest& test) {
    if (test.kind == TileTestKind::kAnd) test.kind = TileTestKind::kOr;
  })));
  CHECK(is_caught(in_tests([](TileTest& test) {
    if (test.kind == TileTestKind::kNot) test = {.kind = TileTestKind::kAnd, .n = 1};
  })));
  CHECK(is_caught(in_tests([](TileTest& test) {
    if (test.kind == TileTestKind::kBetween && test.high < kNanCode) test.high += 1;
  })));
  CHECK(is_caught(in_tests([](TileTest& test) {
    if (test.kind == TileTestKind::kAnyOf) test.n -= 1;
  })));
  CHECK(is_caught(in_tests([](TileTest& test) { test.column = (test.column + 1) % kPlaces; })));
  // NaN as a code that a float may equal.
  CHECK(is_caught([](Case& c) {
    for (TileTest& test : c.program.tests) {
      if (test.kind != TileTestKind::kAnyOf || c.columns[test.column].kind != CodeKind::kFloat)
        continue;
      auto const first = c.program.codes.begin() + test.low;
      std::vector<std::int64_t> codes(first, first + static_cast<std::ptrdiff_t>(test.n));
      if (codes.back() != kNanCode) codes.push_back(kNanCode);
      test.low = static_cast<std::int64_t>(c.program.codes.size());
      test.n = codes.size();
      c.program.codes.insert(c.program.codes.end(), codes.begin(), codes.end());
    }
  }));
}

TEST(tile_filter_planted_bugs_in_columns_and_zones_are_caught) {
  CHECK(is_caught([](Case& c) {
    for (AttributeView& view : c.views) view.valid = nullptr;
  }));
  CHECK(is_caught([](Case& c) {
    for (AttributeView& view : c.views) view.n_rows += 1;
  }));
  CHECK(is_caught(in_zones([](Zone& zone) { zone.n_bare = 0; })));
  CHECK(is_caught(in_zones([](Zone& zone) { zone.n_nan = 0; })));
  CHECK(is_caught(in_zones([](Zone& zone) { zone.n_null = 0; })));
  CHECK(is_caught(in_zones([](Zone& zone) {
    if (zone.min < zone.max) zone.max -= 1;
  })));
}

}  // namespace
}  // namespace hyrecall::testing
