// Flat filter programs against the BoundFilter that they are written from, on every tile and row;
// and broken ones, which the comparison must notice.
#include <functional>
#include <optional>
#include <vector>

#include "native/random_filters.hpp"

namespace hyrecall::testing {
namespace {

using Kind = FilterKind;

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
      zones.emplace_back(column.zones().begin(), column.zones().end());
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
