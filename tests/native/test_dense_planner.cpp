// Plans of batches against what each query may see; and broken plans, which the check must notice.
#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "device/dense_planner.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

struct Asked {
  std::vector<SlotRanges> scopes;
  std::vector<std::uint32_t> group_scopes;
  std::vector<std::uint32_t> group_filters;
  std::vector<std::uint32_t> group_of;
  std::vector<std::uint32_t> depths;
  DenseTuning tuning{64, 1, 2};
  std::uint32_t wide_queries = 0;
  bool is_lexical = false;

  DensePlanInput input() const {
    return {scopes, group_scopes, group_filters, group_of,
            depths, tuning,       wide_queries,  is_lexical};
  }
  SlotRanges const& scope_of(std::uint32_t query) const {
    return scopes[group_scopes[group_of[query]]];
  }
};

std::set<std::uint32_t> tiles_of(SlotRanges const& scope) {
  std::set<std::uint32_t> out;
  for (SlotRange const& range : scope) {
    for (std::uint32_t tile = range.begin / kTileRows; tile * kTileRows < range.end; ++tile)
      out.insert(tile);
  }
  return out;
}

void check_groups(Asked const& asked, DensePlan const& plan) {
  CHECK_EQ(plan.groups.size(), asked.group_scopes.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    DenseGroup const& group = plan.groups[g];
    SlotRanges const& scope = asked.scopes[asked.group_scopes[g]];
    CHECK_EQ(group.filter, asked.group_filters[g]);
    CHECK_EQ(group.n_ranges, scope.size());
    for (std::uint32_t i = 0; i < group.n_ranges; ++i) {
      SlotRange const& range = plan.ranges.at(group.range_begin + i);
      CHECK(range.begin == scope[i].begin && range.end == scope[i].end);
    }
  }
}

// A list's runs: its tiles one after another, with how many come before, and of the multiples.
void check_runs(DensePlan const& plan, std::uint32_t begin, std::uint32_t n, std::uint32_t n_tiles,
                std::uint32_t stride, std::set<std::uint32_t> const& tiles) {
  std::vector<TileRun> const runs(plan.runs.begin() + begin, plan.runs.begin() + begin + n);
  std::uint32_t position = 0;
  std::uint32_t first = 0;
  CHECK_EQ(tiles.size(), n_tiles);
  for (std::uint32_t const tile : tiles) {
    CHECK_EQ(tile_at(runs.data(), n, position), tile);
    if (stride > 0 && tile % stride == 0) {
      CHECK_EQ(first_before(runs.data(), n, stride, tile), first);
      first += 1;
    }
    position += 1;
  }
}

// Panels take their queries, cohorts their panels, wide panels theirs.
void check_parts(Asked const& asked, DensePlan const& plan) {
  std::uint32_t panel = 0, query = 0, group = 0, place = 0;
  for (Cohort const& cohort : plan.cohorts) {
    CHECK(cohort.panel_begin == panel && cohort.n_panels > 0 && cohort.n_tiles > 0);
    panel += cohort.n_panels;
  }
  CHECK_EQ(panel, plan.panels.size());
  std::uint32_t const most = asked.is_lexical ? 1 : kPanelQueries;
  for (Panel const& one : plan.panels) {
    CHECK(one.query_begin == query && one.n_queries > 0 && one.n_queries <= most);
    CHECK(one.group_begin == group && one.n_groups > 0);
    CHECK_EQ(one.plane_begin, place);
    CHECK_EQ(one.width, asked.is_lexical ? 1u : std::max(8u, std::bit_ceil(one.n_queries)));
    query += one.n_queries;
    group += one.n_groups;
    place += one.width;
    for (std::uint32_t i = 0; i < one.n_queries; ++i) {
      std::uint32_t const at = one.query_begin + i;
      CHECK(plan.panel_places.at(at) < one.n_groups);
      CHECK_EQ(plan.panel_groups.at(one.group_begin + plan.panel_places[at]),
               asked.group_of.at(plan.panel_queries.at(at)));
    }
    std::set<std::uint32_t> groups;
    for (std::uint32_t i = 0; i < one.n_groups; ++i)
      CHECK(groups.insert(plan.panel_groups.at(one.group_begin + i)).second);
  }
  CHECK(query == plan.panel_queries.size() && query == plan.panel_places.size());
  CHECK(group == plan.panel_groups.size() && place == plan.n_plane_queries);
  for (WidePanel const& wide : plan.wides) {
    CHECK(wide.n_panels > 0 && wide.n_panels * kPanelQueries <= asked.wide_queries);
    std::uint32_t n_groups = 0;
    for (std::uint32_t p = 0; p < wide.n_panels; ++p) {
      n_groups += plan.panels.at(wide.panel_begin + p).n_groups;
      // Queries of a wide panel follow one another.
      if (p + 1 < wide.n_panels)
        CHECK_EQ(plan.panels[wide.panel_begin + p].n_queries, kPanelQueries);
    }
    CHECK(n_groups <= kWideGroups);
  }
}

// The lists of visits as the device makes them: which tiles each query meets, first and later.
struct Met {
  std::vector<std::multiset<std::uint32_t>> first;
  std::vector<std::multiset<std::uint32_t>> rest;
};
Met visits_of(Asked const& asked, DensePlan const& plan) {
  Met met{std::vector<std::multiset<std::uint32_t>>(asked.group_of.size()),
          std::vector<std::multiset<std::uint32_t>>(asked.group_of.size())};
  std::vector<int> first(plan.n_first, 0), rest(plan.n_rest, 0), wide(plan.n_wide, 0);
  auto const meet = [&](std::vector<std::multiset<std::uint32_t>>& by, std::uint32_t panel,
                        std::uint32_t tile) {
    Panel const& one = plan.panels.at(panel);
    for (std::uint32_t k = 0; k < one.n_queries; ++k)
      by.at(plan.panel_queries.at(one.query_begin + k)).insert(tile);
  };
  CHECK_EQ(plan.visit_begins.size(), plan.cohorts.size() + 1);
  for (std::size_t c = 0; c < plan.cohorts.size(); ++c) {
    Cohort const& cohort = plan.cohorts[c];
    CHECK_EQ(plan.visit_begins[c + 1] - plan.visit_begins[c], cohort.n_tiles * cohort.n_panels);
    TileRun const* const runs = plan.runs.data() + cohort.run_begin;
    std::set<std::uint32_t> tiles;
    for (std::uint32_t i = 0; i < cohort.n_tiles; ++i) {
      std::uint32_t const tile = tile_at(runs, cohort.n_runs, i);
      tiles.insert(tile);
      for (std::uint32_t p = 0; p < cohort.n_panels; ++p) {
        // A text reads its own tiles, each once.
        std::uint32_t stride = cohort.stride;
        if (asked.is_lexical)
          stride = plan.groups
                       .at(plan.panel_groups.at(plan.panels.at(cohort.panel_begin + p).group_begin))
                       .stride;
        bool const is_first = stride > 0 && tile % stride == 0;
        if (cohort.stride > 0 && tile % cohort.stride == 0) {
          std::uint32_t const before = first_before(runs, cohort.n_runs, cohort.stride, tile);
          first.at(cohort.first_begin + before * cohort.n_panels + p) += 1;
          if (is_first) meet(met.first, cohort.panel_begin + p, tile);
        }
        if (cohort.rest_begin != kNone32) {
          rest.at(cohort.rest_begin + i * cohort.n_panels + p) += 1;
          if (!is_first || !asked.is_lexical) meet(met.rest, cohort.panel_begin + p, tile);
        }
        if (cohort.wide_begin != kNone32 && p % plan.wide_panels == 0) {
          WidePanel const& own = plan.wides.at(cohort.wide_begin + p / plan.wide_panels);
          CHECK_EQ(own.cohort, c);
          wide.at(own.visit_begin + i) += 1;
          for (std::uint32_t k = 0; k < own.n_panels; ++k)
            meet(met.rest, own.panel_begin + k, tile);
        }
      }
    }
    check_runs(plan, cohort.run_begin, cohort.n_runs, cohort.n_tiles, cohort.stride, tiles);
  }
  for (std::vector<int> const& list : {first, rest, wide}) {
    for (int const n : list) CHECK_EQ(n, 1);  // each entry is written once
  }
  return met;
}

// What a scope reads first, by the rule: all of few tiles; of more, as few of a stride's multiples
// as make a guess.
std::uint32_t stride_of(Asked const& asked, std::uint32_t scope,
                        std::set<std::uint32_t> const& tiles) {
  if (asked.tuning.seed_tiles == 0) return 0;
  if (tiles.size() <= asked.tuning.seed_tiles) return 1;
  if (asked.is_lexical) return asked.tuning.stride;
  std::uint32_t depth = 0;
  for (std::uint32_t q = 0; q < asked.group_of.size(); ++q) {
    bool const is_own =
        asked.group_of[q] != kNone32 && asked.group_scopes[asked.group_of[q]] == scope;
    if (is_own) depth = std::max(depth, asked.depths[q]);
  }
  for (std::uint32_t stride = std::bit_floor(asked.tuning.stride); stride > 1; stride /= 2) {
    auto const n = std::count_if(tiles.begin(), tiles.end(),
                                 [&](std::uint32_t tile) { return tile % stride == 0; });
    double const mean = static_cast<double>(depth) * static_cast<double>(n) / tiles.size();
    if (2 * guess_rank(mean) <= 8 * n) return stride;
  }
  return 0;
}

// Every query meets every tile of its scope: where it reads all of them first, once; else once
// after those of its sample. And it meets no other.
void check_visits(Asked const& asked, DensePlan const& plan) {
  Met const met = visits_of(asked, plan);
  double total = 0.0;
  std::set<std::uint32_t> read;
  std::uint32_t most_whole = 0;
  std::uint32_t most_sample = 0;
  std::set<std::uint32_t> const orphans(plan.orphans.begin(), plan.orphans.end());
  CHECK_EQ(orphans.size(), plan.orphans.size());
  for (std::uint32_t q = 0; q < asked.group_of.size(); ++q) {
    CHECK_EQ(plan.query_groups.at(q), asked.group_of[q]);
    std::set<std::uint32_t> tiles;
    if (asked.group_of[q] != kNone32) tiles = tiles_of(asked.scope_of(q));
    CHECK_EQ(orphans.contains(q), tiles.empty());
    std::set<std::uint32_t> const met_first(met.first[q].begin(), met.first[q].end());
    std::set<std::uint32_t> const met_rest(met.rest[q].begin(), met.rest[q].end());
    CHECK(met_first.size() == met.first[q].size() && met_rest.size() == met.rest[q].size());
    if (tiles.empty()) {
      CHECK(met_first.empty() && met_rest.empty());
      continue;
    }
    read.insert(tiles.begin(), tiles.end());
    total += static_cast<double>(tiles.size());
    DenseGroup const& group = plan.groups.at(asked.group_of[q]);
    std::uint32_t const stride = stride_of(asked, asked.group_scopes[asked.group_of[q]], tiles);
    CHECK_EQ(group.stride, stride);
    check_runs(plan, group.run_begin, group.n_runs, static_cast<std::uint32_t>(tiles.size()),
               stride, tiles);
    std::set<std::uint32_t> wanted;
    for (std::uint32_t const tile : tiles) {
      if (stride > 0 && tile % stride == 0) wanted.insert(tile);
    }
    CHECK_EQ(group.n_first, wanted.size());
    CHECK(std::includes(met_first.begin(), met_first.end(), wanted.begin(), wanted.end()));
    CHECK(std::includes(tiles.begin(), tiles.end(), met_first.begin(), met_first.end()));
    double const n_first = static_cast<double>(wanted.size());
    bool const is_sampled = stride > 1 && !asked.is_lexical;
    if (asked.is_lexical) {
      CHECK(met_first == wanted);
      for (std::uint32_t const tile : wanted) tiles.erase(tile);
      CHECK(met_rest == tiles);
    } else if (stride == 1) {
      CHECK(met_first == tiles);
      most_whole = std::max(most_whole, group.n_first);
    } else {
      CHECK(met_rest == tiles);
      if (is_sampled) most_sample = std::max(most_sample, group.n_first);
    }
    std::size_t const n_tiles = tiles_of(asked.scope_of(q)).size();
    CHECK_EQ(
        plan.guess_ranks.at(q),
        is_sampled ? guess_rank(asked.depths[q] * n_first / static_cast<double>(n_tiles)) : 0u);
  }
  if (!asked.is_lexical) CHECK_EQ(plan.most_whole_tiles, most_whole);
  CHECK_EQ(plan.most_sample_tiles, most_sample);
  // Each in one cohort, and again in a few where some of its scopes begin or end.
  CHECK(plan.n_tiles >= read.size() && plan.n_tiles <= 4 * read.size());
  double const each = read.empty() ? 0.0 : total / plan.n_tiles;
  CHECK(plan.queries_per_tile() > each * 0.999 - 1e-9 &&
        plan.queries_per_tile() < each * 1.001 + 1e-9);
}

void check_plan(Asked const& asked, DensePlan const& plan) {
  CHECK_EQ(plan.query_groups.size(), asked.group_of.size());
  check_groups(asked, plan);
  check_parts(asked, plan);
  check_visits(asked, plan);
}

SlotRanges random_ranges(Rng& rng, std::uint32_t n_slots) {
  SlotRanges out;
  std::uint32_t const step = 1 + rng.below(n_slots);
  for (std::uint32_t at = rng.below(step); at < n_slots;) {
    std::uint32_t const end = std::min(n_slots, at + 1 + rng.below(step));
    out.push_back({at, end});
    at = end + rng.below(2u) * rng.below(step);
    if (out.back().end == at) at += rng.below(2u);  // now and then they touch
  }
  return out;
}

Asked random_asked(Rng& rng, std::uint32_t n_slots, std::uint32_t n_scopes,
                   std::uint32_t n_queries) {
  Asked asked;
  asked.tuning = {64, rng.below(7u), 2 + rng.below(rng.below(3) == 0 ? 31u : 3u)};
  asked.wide_queries = rng.below(3u) * 128;
  for (std::uint32_t s = 0; s < n_scopes; ++s) {
    switch (rng.below(7)) {
      case 0:
        asked.scopes.push_back({{0, n_slots}});
        break;
      case 1:
        asked.scopes.emplace_back();
        break;
      case 2:  // a tile, or a few
        asked.scopes.push_back({{rng.below(4u) * kTileRows, (5 + rng.below(4u)) * kTileRows}});
        break;
      case 3:
        asked.scopes.push_back(s > 0 ? asked.scopes[rng.below(s)] : SlotRanges{});
        break;
      default:
        asked.scopes.push_back(random_ranges(rng, n_slots));
    }
    for (std::uint32_t i = rng.below(3u); i > 0 || s == 0; --i) {
      asked.group_scopes.push_back(s);
      asked.group_filters.push_back(rng.below(2) == 0 ? kNone32 : rng.below(9u));
      if (i == 0) break;
    }
  }
  auto const n_groups = static_cast<std::uint32_t>(asked.group_scopes.size());
  for (std::uint32_t q = 0; q < n_queries; ++q)
    asked.group_of.push_back(rng.below(10) == 0 ? kNone32 : rng.below(n_groups));
  for (std::uint32_t q = 0; q < n_queries; ++q) asked.depths.push_back(rng.below(300u));
  return asked;
}

TEST(plan_meets_every_tile_of_every_query) {
  Rng rng(1);
  std::set<std::uint32_t> widths;
  std::set<std::uint32_t> strides;
  std::size_t n_wides = 0;
  for (int round = 0; round < 200; ++round) {
    Asked asked = random_asked(rng, 9 * kTileRows + rng.below(60 * kTileRows), 1 + rng.below(12u),
                               rng.below(round % 3 == 0 ? 300u : 20u));
    if (round % 5 == 0) asked.wide_queries = 0, asked.is_lexical = true;
    DensePlan const plan(asked.input());
    check_plan(asked, plan);
    for (Panel const& panel : plan.panels) widths.insert(panel.width);
    for (DenseGroup const& group : plan.groups) strides.insert(group.stride);
    n_wides += plan.wides.size();
  }
  CHECK((widths == std::set<std::uint32_t>{1, 8, 16, 32}));
  CHECK(strides.contains(0) && strides.contains(1) && strides.contains(2) && strides.contains(4));
  CHECK(n_wides > 20);
}

TEST(plan_takes_scopes_that_nest_and_scopes_of_single_rows) {
  Rng rng(2);
  Asked nested;
  for (std::uint32_t i = 0; i < 40; ++i) {
    nested.scopes.push_back({{i * 100, 9000 - i * 100}});
    nested.group_scopes.push_back(i);
    nested.group_filters.push_back(kNone32);
    nested.group_of.push_back(i);
    nested.depths.push_back(i);
  }
  check_plan(nested, DensePlan(nested.input()));
  Asked rows;
  rows.tuning = {64, 16, 4};
  for (std::uint32_t s = 0; s < 3; ++s) {
    SlotRanges scope;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
      std::uint32_t const at = s == 0 ? 2 * i : s == 1 ? 129 * i : 3 * i + rng.below(2u);
      scope.push_back({at, at + 1});
    }
    rows.scopes.push_back(std::move(scope));
    rows.group_scopes.push_back(s);
    rows.group_filters.push_back(s);
    for (int i = 0; i < 3; ++i) rows.group_of.push_back(s);
    for (int i = 0; i < 3; ++i) rows.depths.push_back(10);
  }
  check_plan(rows, DensePlan(rows.input()));
}

// Tenants whose rows lie one after another, so that each ends in the tile where the next begins:
// the sizes of a few large ones and many small ones in between.
Asked chain_of_tenants(Rng& rng, std::uint32_t n_tenants) {
  Asked asked;
  asked.tuning = {64, 16, 4};
  std::uint32_t at = 0;
  for (std::uint32_t s = 0; s < n_tenants; ++s) {
    std::uint32_t const n = s % 7 == 0 ? (20 + rng.below(40u)) * kTileRows : 1 + rng.below(300u);
    asked.scopes.push_back({{at, at + n}});
    at += n;
    asked.group_scopes.push_back(s);
    asked.group_filters.push_back(kNone32);
    asked.group_of.push_back(s);
    asked.depths.push_back(10);
  }
  return asked;
}

TEST(plan_does_not_join_scopes_that_meet_in_one_tile) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    Asked const asked = chain_of_tenants(rng, 60);
    DensePlan const plan(asked.input());
    check_plan(asked, plan);
    std::size_t n_tiles = 0;
    for (std::uint32_t q = 0; q < asked.group_of.size(); ++q) {
      std::size_t const own = tiles_of(asked.scopes[q]).size();
      n_tiles += own;
      CHECK_EQ(plan.guess_ranks[q] > 0, own > asked.tuning.seed_tiles);
    }
    for (Cohort const& cohort : plan.cohorts) {
      for (std::uint32_t p = 0; p < cohort.n_panels; ++p) {
        Panel const& panel = plan.panels[cohort.panel_begin + p];
        if (panel.n_groups == 1) continue;
        CHECK_EQ(cohort.n_tiles, 1u);
        for (std::uint32_t i = 0; i < panel.n_queries; ++i)
          CHECK_EQ(tiles_of(asked.scopes[plan.panel_queries[panel.query_begin + i]]).size(), 1u);
      }
    }
    CHECK(plan.n_tiles <= n_tiles);
  }
}

TEST(plan_of_nothing_is_empty) {
  Asked asked;
  check_plan(asked, DensePlan(asked.input()));
  asked.scopes = {{}, {{5, 900}}};
  asked.group_scopes = {0, 1};
  asked.group_filters = {kNone32, kNone32};
  check_plan(asked, DensePlan(asked.input()));
  asked.group_of = {0, kNone32, 0};
  asked.depths = {1, 2, 3};
  DensePlan const plan(asked.input());
  check_plan(asked, plan);
  CHECK_EQ(plan.n_tiles, 0u);
  CHECK_EQ(plan.batch().n_cohorts, 0u);
  CHECK_EQ(plan.orphans.size(), 3u);
}

// Slots of 128 times as many, in tiles of 128 times as many, are met in the same order.
TEST(plan_of_larger_tiles_meets_them_as_smaller_ones) {
  Rng rng(4);
  constexpr std::uint32_t kTimes = kDocTileRows / kTileRows;
  for (int round = 0; round < 40; ++round) {
    Asked small = random_asked(rng, 9 * kTileRows + rng.below(60 * kTileRows), 5, 20);
    Asked large = small;
    for (auto& scope : large.scopes) {
      for (SlotRange& range : scope) {  // its tiles, some slots less at both ends
        range = {range.begin / kTileRows * kDocTileRows + rng.below(kTimes),
                 (range.end - 1) / kTileRows * kDocTileRows + 1 + rng.below(kTimes)};
      }
    }
    small.is_lexical = large.is_lexical = true;
    DensePlanInput input = large.input();
    input.tile_rows = kDocTileRows;
    DensePlan const wanted(small.input());
    DensePlan const plan(input);
    CHECK_EQ(plan.n_tiles, wanted.n_tiles);
    CHECK(plan.n_first == wanted.n_first && plan.n_rest == wanted.n_rest);
    CHECK(plan.visit_begins == wanted.visit_begins);
    CHECK(plan.guess_ranks == wanted.guess_ranks);
    CHECK(plan.panel_queries == wanted.panel_queries);
    CHECK_EQ(plan.runs.size(), wanted.runs.size());
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      CHECK(plan.runs[i].tile == wanted.runs[i].tile &&
            plan.runs[i].position == wanted.runs[i].position &&
            plan.runs[i].first == wanted.runs[i].first);
    }
  }
}

// ---- planted bugs

bool is_caught(std::function<void(DensePlan&)> const& plant) {
  Rng rng(3);
  for (int round = 0; round < 30; ++round) {
    Asked const asked = random_asked(rng, 20 * kTileRows, 5, 300);
    DensePlan plan(asked.input());
    try {
      plant(plan);
      check_plan(asked, plan);
    } catch (std::exception const&) {  // at() throws as well
      return true;
    }
  }
  return false;
}

TEST(plan_planted_bugs_are_caught) {
  CHECK(!is_caught([](DensePlan&) {}));
  CHECK(is_caught([](DensePlan& plan) { plan.runs.back().tile += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.runs.back().position += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.runs.back().first += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().stride ^= 2; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().first_begin -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().rest_begin -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().n_panels -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.front().n_tiles -= 1; }));
  CHECK(is_caught([](DensePlan& plan) {
    for (DenseGroup& group : plan.groups) group.stride *= 2;
  }));
  CHECK(is_caught([](DensePlan& plan) {
    for (DenseGroup& group : plan.groups) group.n_first += 1;
  }));
  CHECK(is_caught([](DensePlan& plan) { plan.guess_ranks.front() += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.orphans.push_back(0); }));
  CHECK(is_caught([](DensePlan& plan) { plan.wides.at(0).visit_begin += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.wides.at(0).n_panels -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.panel_queries.back() ^= 1; }));
  CHECK(is_caught([](DensePlan& plan) {
    for (std::uint16_t& place : plan.panel_places) place = 0;
  }));
  CHECK(is_caught([](DensePlan& plan) { plan.panels.back().n_queries -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.panels.front().width *= 2; }));
  CHECK(is_caught([](DensePlan& plan) { plan.visit_begins.back() -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.groups.back().filter ^= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.ranges.back().end -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.most_sample_tiles += 1; }));
}

}  // namespace
}  // namespace hyrecall::testing
