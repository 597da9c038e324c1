// Plans of batches against what each query may see; and broken plans, which the check must notice.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "device/dense_planner.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kWidths[] = {8, 32, 64};

struct Asked {
  std::vector<SlotRanges> scopes;
  std::vector<std::uint32_t> group_scopes;
  std::vector<std::uint32_t> group_filters;
  std::vector<std::uint32_t> group_of;
  std::vector<std::uint32_t> depths;
  DenseTuning tuning{64, 1, 2};

  DensePlanInput input() const {
    return {scopes, group_scopes, group_filters, group_of, depths, kWidths, tuning};
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

// Cohorts take positions one after another, panels their queries, widths their cohorts.
void check_parts(Asked const& asked, DensePlan const& plan) {
  std::uint32_t position = 0, panel = 0, run = 0, query = 0, place = 0;
  for (Cohort const& cohort : plan.cohorts) {
    CHECK(cohort.position_begin == position && cohort.position_end > position);
    CHECK(cohort.run_begin == run && cohort.n_runs > 0);
    CHECK(cohort.panel_begin == panel && cohort.n_panels > 0);
    position = cohort.position_end;
    run += cohort.n_runs;
    panel += cohort.n_panels;
    CHECK_EQ(plan.runs.at(cohort.run_begin).position, cohort.position_begin);
  }
  CHECK(position == plan.n_tiles && run == plan.runs.size() && panel == plan.panels.size());
  for (Panel const& one : plan.panels) {
    CHECK(one.query_begin == query && one.n_queries > 0);
    CHECK(one.group_begin == place && one.n_groups > 0);
    query += one.n_queries;
    place += one.n_groups;
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
  CHECK_EQ(query, plan.panel_seeds.size());
  CHECK_EQ(place, plan.panel_groups.size());
  std::uint32_t first = 0;
  for (std::size_t w = 0; w < plan.widths.size(); ++w) {
    WidthClass const& width = plan.widths[w];
    CHECK(width.cohort_begin == first && width.cohort_end > first);
    first = width.cohort_end;
    CHECK(w == 0 || plan.widths[w - 1].width < width.width);
    for (std::uint32_t c = width.cohort_begin; c < width.cohort_end; ++c) {
      Cohort const& cohort = plan.cohorts.at(c);
      std::size_t n = 0;
      for (std::uint32_t p = 0; p < cohort.n_panels; ++p)
        n += plan.panels[cohort.panel_begin + p].n_queries;
      // The least that holds all, else the most; all panels but the last are full.
      auto const least = std::find_if(std::begin(kWidths), std::end(kWidths),
                                      [&](std::uint32_t one) { return one >= n; });
      CHECK_EQ(width.width, least == std::end(kWidths) ? 64u : *least);
      CHECK_EQ(cohort.n_panels, (n + width.width - 1) / width.width);
      for (std::uint32_t p = 0; p + 1 < cohort.n_panels; ++p)
        CHECK_EQ(plan.panels[cohort.panel_begin + p].n_queries, width.width);
    }
  }
  CHECK_EQ(first, plan.cohorts.size());
}

// Every query meets every tile of its scope once, over all stages and widths, and no other.
void check_visits(Asked const& asked, DensePlan const& plan) {
  DenseBatch const batch = plan.batch();
  std::vector<std::vector<std::uint32_t>> met(asked.group_of.size());
  double total = 0.0;
  for (std::uint32_t w = 0; w < batch.n_widths; ++w) {
    for (std::uint32_t stage = 0; stage < batch.n_stages; ++stage) {
      std::uint32_t const n = n_visits(batch, batch.widths[w], stage);
      std::uint32_t last = kNone32;
      for (std::uint32_t i = 0; i < n; ++i) {
        Visit const visit = find_visit(batch, batch.widths[w], stage, i);
        Panel const& panel = plan.panels.at(visit.panel);
        for (std::uint32_t k = 0; k < panel.n_queries; ++k)
          met.at(plan.panel_queries.at(panel.query_begin + k)).push_back(visit.tile);
        // Panels of a tile come one after another.
        bool const is_first =
            std::any_of(plan.cohorts.begin(), plan.cohorts.end(),
                        [&](Cohort const& cohort) { return cohort.panel_begin == visit.panel; });
        CHECK(is_first || visit.tile == last);
        last = visit.tile;
      }
    }
  }
  std::set<std::uint32_t> read;
  for (std::size_t q = 0; q < met.size(); ++q) {
    std::set<std::uint32_t> wanted;
    if (asked.group_of[q] != kNone32)
      wanted = tiles_of(asked.scopes[asked.group_scopes[asked.group_of[q]]]);
    std::sort(met[q].begin(), met[q].end());
    CHECK(std::equal(met[q].begin(), met[q].end(), wanted.begin(), wanted.end()));
    read.insert(wanted.begin(), wanted.end());
    total += static_cast<double>(wanted.size());
  }
  // Each in one cohort, and again in a few where some of its scopes begin or end.
  CHECK(plan.n_tiles >= read.size() && plan.n_tiles <= 4 * read.size());
  double const each = read.empty() ? 0.0 : total / plan.n_tiles;
  CHECK(plan.queries_per_tile() > each * 0.999 - 1e-9 &&
        plan.queries_per_tile() < each * 1.001 + 1e-9);
}

// A scope of few tiles is read at once, unless it shares some with one that begins with a sample; a
// query reads all of its tiles in one way.
void check_sampling(Asked const& asked, DensePlan const& plan) {
  std::vector<std::set<Sampling>> found(asked.group_of.size());
  bool any_after = false;
  for (Cohort const& cohort : plan.cohorts) {
    any_after = any_after || cohort.sampling != Sampling::kWhole;
    bool needs_sample = false;
    for (std::uint32_t p = 0; p < cohort.n_panels; ++p) {
      Panel const& panel = plan.panels[cohort.panel_begin + p];
      for (std::uint32_t i = 0; i < panel.n_queries; ++i) {
        std::uint32_t const q = plan.panel_queries[panel.query_begin + i];
        auto const n = tiles_of(asked.scopes[asked.group_scopes[asked.group_of[q]]]).size();
        needs_sample = needs_sample || n > asked.tuning.seed_tiles;
        found.at(q).insert(cohort.sampling);
      }
    }
    if (asked.tuning.seed_tiles == 0) {
      CHECK(cohort.sampling == Sampling::kNone);
    } else {
      CHECK(cohort.sampling != Sampling::kNone);
      CHECK(!needs_sample || cohort.sampling == Sampling::kSample);
    }
  }
  CHECK_EQ(plan.n_stages, any_after ? 2u : 1u);
  for (std::size_t q = 0; q < found.size(); ++q) {
    CHECK(found[q].size() <= 1);
    bool const is_sampled = found[q].contains(Sampling::kSample);
    CHECK_EQ(plan.guess_ranks.at(q), is_sampled ? guess_rank(asked.depths[q], plan.stride) : 0u);
  }
}

// Every row of a query's seed has a place of its own, and there are no more.
void check_seeds(Asked const& asked, DensePlan const& plan) {
  DenseBatch const batch = plan.batch();
  std::vector<std::vector<std::uint32_t>> places(asked.group_of.size());
  for (std::uint32_t w = 0; w < batch.n_widths; ++w) {
    std::uint32_t const n = n_visits(batch, batch.widths[w], 0);
    for (std::uint32_t i = 0; i < n; ++i) {
      Visit const visit = find_visit(batch, batch.widths[w], 0, i);
      Panel const& panel = plan.panels.at(visit.panel);
      for (std::uint32_t k = 0; k < panel.n_queries; ++k) {
        std::uint32_t const at = panel.query_begin + k;
        places.at(plan.panel_queries.at(at))
            .push_back(plan.panel_seeds.at(at) + visit.number * kTileRows);
      }
    }
  }
  std::uint32_t most = 0;
  for (std::size_t q = 0; q < places.size(); ++q) {
    std::sort(places[q].begin(), places[q].end());
    for (std::size_t i = 0; i < places[q].size(); ++i) CHECK_EQ(places[q][i], i * kTileRows);
    CHECK_EQ(plan.seed_rows.at(q), places[q].size() * kTileRows);
    most = std::max(most, plan.seed_rows[q]);
  }
  CHECK_EQ(plan.most_seed_rows, most);
}

void check_plan(Asked const& asked, DensePlan const& plan) {
  CHECK_EQ(plan.n_queries, asked.group_of.size());
  CHECK_EQ(plan.stride, asked.tuning.stride);
  check_groups(asked, plan);
  check_parts(asked, plan);
  check_visits(asked, plan);
  check_sampling(asked, plan);
  check_seeds(asked, plan);
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

TEST(plan_meets_every_tile_of_every_query_once) {
  Rng rng(1);
  std::set<std::uint32_t> widths;
  std::set<Sampling> samplings;
  for (int round = 0; round < 150; ++round) {
    Asked const asked = random_asked(rng, 9 * kTileRows + rng.below(60 * kTileRows),
                                     1 + rng.below(12u), rng.below(round % 3 == 0 ? 200u : 20u));
    DensePlan const plan(asked.input());
    check_plan(asked, plan);
    for (WidthClass const& width : plan.widths) widths.insert(width.width);
    for (Cohort const& cohort : plan.cohorts) samplings.insert(cohort.sampling);
  }
  CHECK_EQ(widths.size(), std::size(kWidths));
  CHECK_EQ(samplings.size(), 3u);
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
        CHECK_EQ(cohort.position_end - cohort.position_begin, 1u);
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
  CHECK_EQ(plan.batch().n_widths, 0u);
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
    DensePlanInput input = large.input();
    input.tile_rows = kDocTileRows;
    input.has_seeds = false;
    DensePlan const wanted(small.input());
    DensePlan const plan(input);
    CHECK_EQ(plan.n_tiles, wanted.n_tiles);
    CHECK_EQ(plan.n_stages, wanted.n_stages);
    CHECK(plan.visit_begins == wanted.visit_begins);
    CHECK(plan.guess_ranks == std::vector<std::uint32_t>(plan.n_queries, 0));
    CHECK_EQ(plan.most_seed_rows, 0u);
    CHECK(plan.panel_queries == wanted.panel_queries);
    CHECK_EQ(plan.runs.size(), wanted.runs.size());
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      CHECK(plan.runs[i].tile == wanted.runs[i].tile &&
            plan.runs[i].position == wanted.runs[i].position);
    }
  }
}

// ---- planted bugs

bool is_caught(std::function<void(DensePlan&)> const& plant) {
  Rng rng(3);
  for (int round = 0; round < 30; ++round) {
    Asked const asked = random_asked(rng, 20 * kTileRows, 5, 90);
    DensePlan plan(asked.input());
    plant(plan);
    try {
      check_plan(asked, plan);
    } catch (std::exception const&) {  // at() throws as well
      return true;
    }
  }
  return false;
}

TEST(plan_planted_bugs_are_caught) {
  CHECK(!is_caught([](DensePlan&) {}));
  CHECK(is_caught([](DensePlan& plan) { plan.n_stages = 3 - plan.n_stages; }));
  CHECK(is_caught([](DensePlan& plan) { plan.stride += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.runs.back().tile += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.runs.back().position += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().sampling = Sampling::kSample; }));
  CHECK(is_caught([](DensePlan& plan) { plan.panel_seeds.back() += kTileRows; }));
  CHECK(is_caught([](DensePlan& plan) { plan.seed_rows.front() += kTileRows; }));
  CHECK(is_caught([](DensePlan& plan) { plan.guess_ranks.front() += 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.back().n_panels -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.cohorts.front().position_end -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.panel_queries.back() ^= 1; }));
  CHECK(is_caught([](DensePlan& plan) {
    for (std::uint16_t& place : plan.panel_places) place = 0;
  }));
  CHECK(is_caught([](DensePlan& plan) { plan.panels.back().n_queries -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.visit_begins.back() -= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.widths.front().width = 16; }));
  CHECK(is_caught([](DensePlan& plan) { plan.groups.back().filter ^= 1; }));
  CHECK(is_caught([](DensePlan& plan) { plan.ranges.back().end -= 1; }));
}

}  // namespace
}  // namespace hyrecall::testing
