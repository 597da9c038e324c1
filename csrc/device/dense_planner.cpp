#include "device/dense_planner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <unordered_map>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// Appends a scope's tile intervals as (begin, end, 0), rising and apart.
void append_tiles(SlotRanges const& ranges, std::uint32_t tile_rows, std::vector<TileRun>& out) {
  std::size_t const first = out.size();
  for (SlotRange const& range : ranges) {
    std::uint32_t const begin = range.begin / tile_rows;
    std::uint32_t const end = (range.end - 1) / tile_rows + 1;
    if (out.size() > first && begin <= out.back().position) {
      out.back().position = end;
    } else {
      out.push_back({begin, end, 0});
    }
  }
}

// A set of scopes is known by the sum of its members' random numbers: two sets of 64-bit sums are
// as good as never equal by chance.
struct SetSum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(SetSum const&, SetSum const&) = default;
  void operator+=(SetSum const& other) { low += other.low, high += other.high; }
  void operator-=(SetSum const& other) { low -= other.low, high -= other.high; }
};
struct HashOfSum {
  std::size_t operator()(SetSum const& sum) const { return static_cast<std::size_t>(sum.low); }
};

std::uint64_t mix(std::uint64_t x) {  // splitmix64, Steele, Lea, Flood, OOPSLA 2014
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Sorts numbers by their upper half, stably, digit after digit: scopes come in any order, and a
// sort by comparison would guess wrong at every second of them.
void sort_by_tile(std::vector<std::uint64_t>& all) {
  constexpr int kBits = 11;
  std::uint64_t most = 0;
  for (std::uint64_t const one : all) most = std::max(most, one >> 32);
  std::vector<std::uint64_t> sorted(all.size());
  for (int shift = 32; shift == 32 || most >> (shift - 32) != 0; shift += kBits) {
    std::array<std::uint32_t, (1 << kBits) + 1> begins{};
    auto const digit = [shift](std::uint64_t one) { return one >> shift & ((1 << kBits) - 1); };
    for (std::uint64_t const one : all) begins[digit(one) + 1] += 1;
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (std::uint64_t const one : all) sorted[begins[digit(one)]++] = one;
    all.swap(sorted);
  }
}

// Of disjoint scopes nothing is out of order, and a stable sort would take memory.
template <typename T, typename Less>
void sort_stably(std::vector<T>& all, Less const& less) {
  if (!std::is_sorted(all.begin(), all.end(), less)) std::stable_sort(all.begin(), all.end(), less);
}

// How a scope meets a tile in which others begin or end. Scopes that meet only there are not read
// together: a tenant's rows end in the tile where the next one's begin, and a chain of tenants
// would be read as one. The tile is read once for each of these groups.
constexpr std::size_t kMeetings = 4;
std::size_t meeting(std::span<TileRun const> own, TileRun const& run, std::uint32_t tile) {
  if (run.tile < tile) return 0;          // reads on from the tile before
  if (run.position > tile + 1) return 1;  // begins here, and goes on
  return own.size() > 1 ? 2 : 3;          // this tile alone; nowhere else
}

}  // namespace

DensePlan::Crowds DensePlan::find_crowds(Lists<TileRun> const& tiles) {
  // Sweep over the ends of all intervals; what is open between two ends is a crowd. An end is one
  // number, for a fast sort: its tile, its scope, and whether it opens.
  std::vector<std::uint64_t> ends;
  ends.reserve(2 * tiles.all.size());
  std::vector<SetSum> members;  // [scope]
  members.reserve(tiles.size());
  for (std::uint64_t scope = 0; scope < tiles.size(); ++scope) {
    members.push_back({mix(2 * scope), mix(2 * scope + 1)});
    for (TileRun const& run : tiles[scope]) {
      ends.push_back(std::uint64_t{run.tile} << 32 | scope << 1 | 1);
      ends.push_back(std::uint64_t{run.position} << 32 | scope << 1);
    }
  }
  sort_by_tile(ends);
  auto const tile_of = [](std::uint64_t end) { return static_cast<std::uint32_t>(end >> 32); };
  Crowds out;
  out.intervals.reserve(ends.size());
  out.scopes.all.reserve(tiles.size());
  out.scopes.begins.reserve(tiles.size() + 1);
  std::vector<std::uint32_t> alone(tiles.size(), kNone32);       // [scope] its crowd of one
  std::unordered_map<SetSum, std::uint32_t, HashOfSum> numbers;  // of larger crowds
  auto const add = [&](std::uint32_t tile, std::uint32_t end, std::span<std::uint32_t const> scopes,
                       SetSum const& sum) {
    if (scopes.empty()) return;
    std::uint32_t& crowd = scopes.size() == 1 ? alone[scopes.front()]
                                              : numbers.try_emplace(sum, kNone32).first->second;
    if (crowd == kNone32) {
      crowd = static_cast<std::uint32_t>(out.scopes.size());
      std::size_t const first = out.scopes.all.size();
      out.scopes.all.insert(out.scopes.all.end(), scopes.begin(), scopes.end());
      std::sort(out.scopes.all.begin() + static_cast<std::ptrdiff_t>(first), out.scopes.all.end());
      out.scopes.end_list();
    }
    out.intervals.push_back({tile, end, crowd});
  };
  std::vector<std::uint32_t> open;                    // scopes, in any order
  std::vector<std::uint32_t> place(tiles.size());     // in open
  std::vector<std::uint32_t> n_opened(tiles.size());  // [scope] its runs so far
  std::array<std::vector<std::uint32_t>, kMeetings> parts;
  SetSum sum;
  for (std::size_t i = 0; i < ends.size();) {
    std::uint32_t const tile = tile_of(ends[i]);
    for (; i < ends.size() && tile_of(ends[i]) == tile; ++i) {
      auto const scope = static_cast<std::uint32_t>(ends[i]) >> 1;
      if ((ends[i] & 1) != 0) {
        place[scope] = static_cast<std::uint32_t>(open.size());
        open.push_back(scope);
        n_opened[scope] += 1;
        sum += members[scope];
      } else {
        place[open.back()] = place[scope];
        open[place[scope]] = open.back();
        open.pop_back();
        sum -= members[scope];
      }
    }
    if (open.empty()) continue;
    std::uint32_t const end = tile_of(ends[i]);  // there is one: something is open
    if (end - tile > 1 || open.size() == 1) {
      add(tile, end, open, sum);
      continue;
    }
    for (std::vector<std::uint32_t>& part : parts) part.clear();
    for (std::uint32_t const scope : open) {
      std::span<TileRun const> const own = tiles[scope];
      parts[meeting(own, own[n_opened[scope] - 1], tile)].push_back(scope);
    }
    for (std::vector<std::uint32_t> const& part : parts) {
      SetSum of_part;
      for (std::uint32_t const scope : part) of_part += members[scope];
      add(tile, end, part, of_part);
    }
  }
  return out;
}

// Joins intervals of one crowd that follow one another.
void DensePlan::join_neighbours(std::vector<Interval>& intervals) {
  std::size_t n = 0;
  for (Interval const& one : intervals) {
    bool const is_next = n > 0 && intervals[n - 1].crowd == one.crowd;
    if (is_next && intervals[n - 1].end == one.begin) {
      intervals[n - 1].end = one.end;
    } else {
      intervals[n++] = one;
    }
  }
  intervals.resize(n);
}

// The queries of each scope, by group, then by number: groups and queries are counted out to their
// places.
DensePlan::Lists<std::uint32_t> DensePlan::queries_by_scope(DensePlanInput const& input) {
  std::size_t const n_groups = input.group_scopes.size();
  std::vector<std::uint32_t> ends(input.scopes.size() + 1, 0);  // [scope] of its groups in `order`
  for (std::uint32_t const scope : input.group_scopes) ends[scope + 1] += 1;
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> order(n_groups);  // groups by scope
  for (std::uint32_t g = 0; g < n_groups; ++g) order[ends[input.group_scopes[g]]++] = g;
  std::vector<std::uint32_t> counts(n_groups, 0);  // [group] queries
  for (std::uint32_t const group : input.group_of) {
    if (group != kNone32) counts[group] += 1;
  }
  Lists<std::uint32_t> out;
  out.begins.reserve(input.scopes.size() + 1);
  std::vector<std::uint32_t> next(n_groups);  // [group] where its next query goes
  std::uint32_t n = 0;
  std::uint32_t at = 0;
  for (std::size_t s = 0; s < input.scopes.size(); ++s) {
    for (; at < ends[s]; ++at) {
      next[order[at]] = n;
      n += counts[order[at]];
    }
    out.begins.push_back(n);
  }
  out.all.resize(n);
  for (std::uint32_t q = 0; q < input.group_of.size(); ++q) {
    if (input.group_of[q] != kNone32) out.all[next[input.group_of[q]]++] = q;
  }
  return out;
}

DensePlan::DensePlan(DensePlanInput const& input) {
  require(input.group_scopes.size() == input.group_filters.size(), "a filter a group");
  require(input.depths.size() == input.group_of.size(), "a depth a query");
  std::size_t const n_scopes = input.scopes.size();
  std::size_t const n_queries = input.group_of.size();
  query_groups.assign(input.group_of.begin(), input.group_of.end());
  guess_ranks.assign(n_queries, 0);

  std::vector<SlotRange> first_ranges(n_scopes);  // of each scope, into ranges
  ranges.reserve(n_scopes);
  runs.reserve(2 * n_scopes);
  Lists<std::uint32_t> const of_scope = queries_by_scope(input);
  Lists<TileRun> tiles;  // of each scope; none where nobody asks
  tiles.all.reserve(n_scopes);
  tiles.begins.reserve(n_scopes + 1);
  std::vector<Reading> readings;  // [scope]
  readings.reserve(n_scopes);
  for (std::size_t s = 0; s < n_scopes; ++s) {
    auto const begin = static_cast<std::uint32_t>(ranges.size());
    ranges.insert(ranges.end(), input.scopes[s].begin(), input.scopes[s].end());
    first_ranges[s] = {begin, static_cast<std::uint32_t>(ranges.size())};
    if (!of_scope[s].empty()) append_tiles(input.scopes[s], input.tile_rows, tiles.all);
    tiles.end_list();
    readings.push_back(read_scope(tiles[s], of_scope[s], input));
    if (readings.back().n_tiles == 0)
      orphans.insert(orphans.end(), of_scope[s].begin(), of_scope[s].end());
  }
  for (std::uint32_t q = 0; q < n_queries; ++q) {
    if (input.group_of[q] == kNone32) orphans.push_back(q);
  }
  groups.reserve(input.group_scopes.size());
  for (std::size_t g = 0; g < input.group_scopes.size(); ++g) {
    SlotRange const own = first_ranges[input.group_scopes[g]];
    Reading const& reading = readings[input.group_scopes[g]];
    groups.push_back({own.begin, own.end - own.begin, input.group_filters[g], reading.run_begin,
                      reading.n_runs, reading.stride, reading.n_first});
  }

  Crowds crowds = find_crowds(tiles);
  sort_stably(crowds.intervals,
              [](Interval const& a, Interval const& b) { return a.crowd < b.crowd; });
  join_neighbours(crowds.intervals);
  std::size_t const n_crowds = crowds.scopes.size();
  cohorts.reserve(n_crowds);
  visit_begins.reserve(n_crowds + 1);
  visit_begins.push_back(0);
  panels.reserve(n_crowds);
  panel_queries.reserve(n_queries);
  panel_places.reserve(n_queries);
  panel_groups.reserve(n_queries);
  std::vector<std::uint32_t> queries;  // of a cohort
  for (std::size_t i = 0; i < crowds.intervals.size();) {
    std::size_t const first = i;
    std::uint32_t const crowd = crowds.intervals[i].crowd;
    while (i < crowds.intervals.size() && crowds.intervals[i].crowd == crowd) ++i;
    queries.clear();
    for (std::uint32_t scope : crowds.scopes[crowd]) {
      std::span<std::uint32_t const> const own = of_scope[scope];
      queries.insert(queries.end(), own.begin(), own.end());
    }
    add_cohort(std::span(crowds.intervals).subspan(first, i - first), queries, input);
  }
}

// What is read first: all of a scope that has few tiles; of another, as few as make a guess.
DensePlan::Reading DensePlan::read_scope(std::span<TileRun const> tiles,
                                         std::span<std::uint32_t const> queries,
                                         DensePlanInput const& input) {
  Reading out{static_cast<std::uint32_t>(runs.size()), static_cast<std::uint32_t>(tiles.size()), 0,
              0, 0};
  auto const n_at = [&](std::uint32_t stride) {
    std::uint32_t n = 0;
    for (TileRun const& run : tiles) n += n_multiples(run.tile, run.position, stride);
    return n;
  };
  out.n_tiles = n_at(1);
  std::uint32_t depth = 0;
  for (std::uint32_t q : queries) depth = std::max(depth, input.depths[q]);
  auto const mean = [&](std::uint32_t of_depth, std::uint32_t n) {
    return static_cast<double>(of_depth) * n / out.n_tiles;
  };
  if (input.tuning.seed_tiles == 0 || out.n_tiles == 0) {
    out.stride = 0;
  } else if (out.n_tiles <= input.tuning.seed_tiles) {
    out.stride = 1;
  } else if (input.is_lexical) {
    out.stride = input.tuning.stride;
  } else {
    // The best of so many blocks of rows says little where more than half of them are wanted.
    constexpr std::uint32_t kOfTile = kTileRows / kSampleRows;
    for (out.stride = std::bit_floor(input.tuning.stride); out.stride > 1; out.stride /= 2) {
      std::uint32_t const n = n_at(out.stride);
      if (2 * guess_rank(mean(depth, n)) <= n * kOfTile) break;
    }
    if (out.stride == 1) out.stride = 0;
  }
  if (out.stride > 0) out.n_first = n_at(out.stride);
  std::uint32_t position = 0;
  std::uint32_t first = 0;
  for (TileRun const& run : tiles) {
    runs.push_back({run.tile, position, first});
    position += run.position - run.tile;
    if (out.stride > 0) first += n_multiples(run.tile, run.position, out.stride);
  }
  if (out.stride > 1 && !input.is_lexical) {
    most_sample_tiles = std::max(most_sample_tiles, out.n_first);
    for (std::uint32_t q : queries) guess_ranks[q] = guess_rank(mean(input.depths[q], out.n_first));
  } else if (out.stride == 1) {
    most_whole_tiles = std::max(most_whole_tiles, out.n_tiles);
  }
  return out;
}

void DensePlan::add_cohort(std::span<Interval const> intervals,
                           std::span<std::uint32_t const> queries, DensePlanInput const& input) {
  Cohort cohort{};
  bool has_rest = false;
  for (std::uint32_t q : queries) {
    std::uint32_t const stride = groups[input.group_of[q]].stride;
    has_rest = has_rest || stride != 1;
    if (stride > 0) cohort.stride = cohort.stride == 0 ? stride : std::min(cohort.stride, stride);
  }
  cohort.run_begin = static_cast<std::uint32_t>(runs.size());
  std::uint32_t n_own_first = 0;
  for (Interval const& one : intervals) {
    runs.push_back({one.begin, cohort.n_tiles, n_own_first});
    cohort.n_tiles += one.end - one.begin;
    if (cohort.stride > 0) n_own_first += n_multiples(one.begin, one.end, cohort.stride);
  }
  cohort.n_runs = static_cast<std::uint32_t>(runs.size()) - cohort.run_begin;
  cohort.panel_begin = static_cast<std::uint32_t>(panels.size());
  add_panels(queries, input.group_of, input.is_lexical);
  cohort.n_panels = static_cast<std::uint32_t>(panels.size()) - cohort.panel_begin;

  std::uint64_t const n_visits = std::uint64_t{cohort.n_tiles} * cohort.n_panels;
  require(visit_begins.back() + n_visits + n_wide < kNone32 / 2, "fewer than 2^31 visits");
  visit_begins.push_back(visit_begins.back() + static_cast<std::uint32_t>(n_visits));
  cohort.first_begin = cohort.rest_begin = cohort.wide_begin = kNone32;
  if (cohort.stride > 0) {
    cohort.first_begin = n_first;
    n_first += n_own_first * cohort.n_panels;
  }
  if (has_rest && cohort.n_panels > 1 && input.wide_queries > 0)
    add_wides(cohort, input.wide_queries);
  if (has_rest && cohort.wide_begin == kNone32) {
    cohort.rest_begin = n_rest;
    n_rest += static_cast<std::uint32_t>(n_visits);
  }
  n_tiles += cohort.n_tiles;
  cohorts.push_back(cohort);
}

void DensePlan::add_panels(std::span<std::uint32_t const> queries,
                           std::span<std::uint32_t const> group_of, bool is_lexical) {
  std::size_t const most = is_lexical ? 1 : kPanelQueries;
  for (std::size_t begin = 0; begin < queries.size(); begin += most) {
    std::size_t const n = std::min(most, queries.size() - begin);
    Panel panel{};
    panel.plane_begin = n_plane_queries;
    panel.width = is_lexical ? 1 : std::max(8u, std::bit_ceil(static_cast<std::uint32_t>(n)));
    n_plane_queries += panel.width;
    panel.query_begin = static_cast<std::uint32_t>(panel_queries.size());
    panel.n_queries = static_cast<std::uint32_t>(n);
    panel.group_begin = static_cast<std::uint32_t>(panel_groups.size());
    for (std::uint32_t q : queries.subspan(begin, n)) {
      if (panel.n_groups == 0 || panel_groups.back() != group_of[q]) {
        panel_groups.push_back(group_of[q]);
        panel.n_groups += 1;
      }
      panel_queries.push_back(q);
      panel_places.push_back(static_cast<std::uint16_t>(panel.n_groups - 1));
    }
    panels.push_back(panel);
  }
  require(panels.size() < 1u << 30, "fewer than 2^30 panels");
}

// A cohort's panels as wide ones, unless these had too many groups.
void DensePlan::add_wides(Cohort& cohort, std::uint32_t wide_queries) {
  std::uint32_t const n_each = wide_panels = wide_queries / kPanelQueries;
  std::uint32_t const end = cohort.panel_begin + cohort.n_panels;
  auto const n_of = [&](std::uint32_t first) { return std::min(n_each, end - first); };
  for (std::uint32_t first = cohort.panel_begin; first < end; first += n_each) {
    std::uint32_t n_groups = 0;
    for (std::uint32_t p = first; p < first + n_of(first); ++p) n_groups += panels[p].n_groups;
    if (n_groups > kWideGroups) return;
  }
  cohort.wide_begin = static_cast<std::uint32_t>(wides.size());
  for (std::uint32_t first = cohort.panel_begin; first < end; first += n_each) {
    wides.push_back({first, n_of(first), n_wide, static_cast<std::uint32_t>(cohorts.size())});
    n_wide += cohort.n_tiles;
  }
}

double DensePlan::queries_per_tile() const {
  double met = 0.0;
  for (Cohort const& cohort : cohorts) {
    double n = 0.0;
    for (std::uint32_t p = 0; p < cohort.n_panels; ++p)
      n += panels[cohort.panel_begin + p].n_queries;
    met += n * cohort.n_tiles;
  }
  return n_tiles == 0 ? 0.0 : met / n_tiles;
}

DenseBatch DensePlan::batch() const {
  DenseBatch out{};
  out.ranges = ranges.data();
  out.groups = groups.data();
  out.runs = runs.data();
  out.cohorts = cohorts.data();
  out.visit_begins = visit_begins.data();
  out.panels = panels.data();
  out.panel_queries = panel_queries.data();
  out.panel_places = panel_places.data();
  out.panel_groups = panel_groups.data();
  out.wides = wides.data();
  out.query_groups = query_groups.data();
  out.guess_ranks = guess_ranks.data();
  out.orphans = orphans.data();
  out.n_cohorts = static_cast<std::uint32_t>(cohorts.size());
  out.n_panels = static_cast<std::uint32_t>(panels.size());
  out.n_wides = static_cast<std::uint32_t>(wides.size());
  out.n_queries = static_cast<std::uint32_t>(query_groups.size());
  out.n_orphans = static_cast<std::uint32_t>(orphans.size());
  out.n_plane_queries = n_plane_queries;
  out.n_first = n_first;
  out.n_rest = n_rest;
  out.n_wide = n_wide;
  return out;
}

}  // namespace hyrecall
