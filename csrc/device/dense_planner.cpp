#include "device/dense_planner.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// Appends a scope's tile intervals as (begin, end), rising and apart.
void append_tiles(SlotRanges const& ranges, std::uint32_t tile_rows, std::vector<TileRun>& out) {
  std::size_t const first = out.size();
  for (SlotRange const& range : ranges) {
    std::uint32_t const begin = range.begin / tile_rows;
    std::uint32_t const end = (range.end - 1) / tile_rows + 1;
    if (out.size() > first && begin <= out.back().position) {
      out.back().position = end;
    } else {
      out.push_back({begin, end});
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
  require(!input.widths.empty() && input.widths.size() <= kMaxWidths, "some widths of panels");
  require(input.group_scopes.size() == input.group_filters.size(), "a filter a group");
  require(input.depths.size() == input.group_of.size(), "a depth a query");
  has_seeds_ = input.has_seeds;
  stride = input.tuning.stride;
  n_queries = static_cast<std::uint32_t>(input.group_of.size());

  std::vector<SlotRange> first_ranges(input.scopes.size());  // of each scope, into ranges
  ranges.reserve(input.scopes.size());
  Lists<std::uint32_t> const of_scope = queries_by_scope(input);
  Lists<TileRun> tiles;  // of each scope; none where nobody asks
  tiles.all.reserve(input.scopes.size());
  tiles.begins.reserve(input.scopes.size() + 1);
  std::vector<Sampling> samplings;  // [scope]
  samplings.reserve(input.scopes.size());
  for (std::size_t s = 0; s < input.scopes.size(); ++s) {
    auto const begin = static_cast<std::uint32_t>(ranges.size());
    ranges.insert(ranges.end(), input.scopes[s].begin(), input.scopes[s].end());
    first_ranges[s] = {begin, static_cast<std::uint32_t>(ranges.size())};
    if (!of_scope[s].empty()) append_tiles(input.scopes[s], input.tile_rows, tiles.all);
    tiles.end_list();
    std::uint32_t n = 0;
    for (TileRun const& run : tiles[s]) n += run.position - run.tile;
    samplings.push_back(input.tuning.seed_tiles == 0   ? Sampling::kNone
                        : n <= input.tuning.seed_tiles ? Sampling::kWhole
                                                       : Sampling::kSample);
  }
  groups.reserve(input.group_scopes.size());
  for (std::size_t g = 0; g < input.group_scopes.size(); ++g) {
    SlotRange const own = first_ranges[input.group_scopes[g]];
    groups.push_back({own.begin, own.end - own.begin, input.group_filters[g]});
  }

  seed_rows.assign(n_queries, 0);
  guess_ranks.assign(n_queries, 0);
  Crowds crowds = find_crowds(tiles);
  spread_samples(crowds, samplings);
  sort_stably(crowds.intervals,
              [](Interval const& a, Interval const& b) { return a.crowd < b.crowd; });
  join_neighbours(crowds.intervals);
  struct Draft {
    std::size_t first;  // of its intervals
    std::size_t last;
    std::size_t queries;  // number of its list
    std::uint32_t width;
    Sampling sampling;
  };
  std::vector<Draft> drafts;
  Lists<std::uint32_t> queries;  // of each draft
  drafts.reserve(crowds.scopes.size());
  queries.all.reserve(n_queries);
  queries.begins.reserve(crowds.scopes.size() + 1);
  for (std::size_t i = 0; i < crowds.intervals.size();) {
    Draft draft{i, i, queries.size(), input.widths.back(), Sampling::kWhole};
    std::uint32_t const crowd = crowds.intervals[i].crowd;
    while (i < crowds.intervals.size() && crowds.intervals[i].crowd == crowd) ++i;
    draft.last = i;
    for (std::uint32_t scope : crowds.scopes[crowd]) {
      std::span<std::uint32_t const> const own = of_scope[scope];
      queries.all.insert(queries.all.end(), own.begin(), own.end());
      draft.sampling = samplings[scope];  // of all of them
    }
    queries.end_list();
    for (std::uint32_t width : input.widths) {
      if (width < queries[draft.queries].size()) continue;
      draft.width = width;
      break;
    }
    drafts.push_back(draft);
  }
  sort_stably(drafts, [](Draft const& a, Draft const& b) { return a.width < b.width; });
  reserve_cohorts(drafts.size(), crowds.intervals.size(), queries.all.size());
  for (Draft const& draft : drafts) {
    add_cohort(std::span(crowds.intervals).subspan(draft.first, draft.last - draft.first),
               queries[draft.queries], input.group_of, draft.width, draft.sampling);
    if (draft.sampling != Sampling::kWhole) n_stages = 2;
    for (std::uint32_t q : queries[draft.queries]) {
      if (draft.sampling == Sampling::kSample && has_seeds_)
        guess_ranks[q] = guess_rank(input.depths[q], stride);
    }
  }
  for (std::uint32_t rows : seed_rows) most_seed_rows = std::max(most_seed_rows, rows);
  add_visits();
}

// Room where every cohort has one panel, and every query of a panel a group of its own.
void DensePlan::reserve_cohorts(std::size_t n_cohorts, std::size_t n_intervals, std::size_t n) {
  cohorts.reserve(n_cohorts);
  runs.reserve(n_intervals);
  panels.reserve(n_cohorts);
  panel_queries.reserve(n);
  panel_places.reserve(n);
  panel_seeds.reserve(n);
  panel_groups.reserve(n);
}

// Queries that share tiles read them by one sampling, and a query reads all of its tiles by one: a
// guess speaks of a share that is the same everywhere.
void DensePlan::spread_samples(Crowds const& crowds, std::span<Sampling> samplings) {
  std::vector<std::uint32_t> leaders(samplings.size());  // of scopes that hang together
  std::iota(leaders.begin(), leaders.end(), 0u);
  auto const leader_of = [&](std::uint32_t scope) {
    while (leaders[scope] != scope) scope = leaders[scope] = leaders[leaders[scope]];
    return scope;
  };
  for (std::size_t crowd = 0; crowd < crowds.scopes.size(); ++crowd) {
    std::span<std::uint32_t const> const scopes = crowds.scopes[crowd];
    for (std::uint32_t scope : scopes) leaders[leader_of(scope)] = leader_of(scopes.front());
  }
  for (std::uint32_t scope = 0; scope < samplings.size(); ++scope) {
    if (samplings[scope] == Sampling::kSample) samplings[leader_of(scope)] = Sampling::kSample;
  }
  for (std::uint32_t scope = 0; scope < samplings.size(); ++scope)
    samplings[scope] = samplings[leader_of(scope)];
}

void DensePlan::add_cohort(std::span<Interval const> intervals,
                           std::span<std::uint32_t const> queries,
                           std::span<std::uint32_t const> group_of, std::uint32_t width,
                           Sampling sampling) {
  Cohort cohort{};
  cohort.run_begin = static_cast<std::uint32_t>(runs.size());
  cohort.position_begin = n_tiles;
  for (Interval const& interval : intervals) {
    runs.push_back({interval.begin, n_tiles});
    n_tiles += interval.end - interval.begin;
  }
  cohort.n_runs = static_cast<std::uint32_t>(runs.size()) - cohort.run_begin;
  cohort.position_end = n_tiles;
  cohort.sampling = sampling;
  StageStep const seed = has_seeds_ ? stage_step(stride, sampling, 0) : StageStep{0, 0};
  std::uint32_t const own_seed_rows = kTileRows * n_in_step(seed, cohort.position_begin, n_tiles);
  cohort.panel_begin = static_cast<std::uint32_t>(panels.size());
  for (std::size_t begin = 0; begin < queries.size(); begin += width) {
    Panel panel{};
    panel.plane_begin = n_plane_queries;
    panel.width = width;
    n_plane_queries += width;
    panel.query_begin = static_cast<std::uint32_t>(panel_queries.size());
    panel.group_begin = static_cast<std::uint32_t>(panel_groups.size());
    for (std::uint32_t q :
         queries.subspan(begin, std::min<std::size_t>(width, queries.size() - begin))) {
      if (panel.n_groups == 0 || panel_groups.back() != group_of[q]) {
        panel_groups.push_back(group_of[q]);
        panel.n_groups += 1;
      }
      panel_queries.push_back(q);
      panel_places.push_back(static_cast<std::uint16_t>(panel.n_groups - 1));
      panel_seeds.push_back(seed_rows[q]);
      seed_rows[q] += own_seed_rows;
      panel.n_queries += 1;
    }
    panels.push_back(panel);
  }
  cohort.n_panels = static_cast<std::uint32_t>(panels.size()) - cohort.panel_begin;
  if (widths.empty() || widths.back().width != width) {
    auto const first = static_cast<std::uint32_t>(cohorts.size());
    widths.push_back({width, first, first, 0});
  }
  cohorts.push_back(cohort);
  widths.back().cohort_end = static_cast<std::uint32_t>(cohorts.size());
}

void DensePlan::add_visits() {
  for (WidthClass& width : widths) {
    width.visit_table = static_cast<std::uint32_t>(visit_begins.size());
    for (std::uint32_t stage = 0; stage < n_stages; ++stage) {
      std::uint64_t total = 0;
      visit_begins.push_back(0);
      for (std::uint32_t c = width.cohort_begin; c < width.cohort_end; ++c) {
        Cohort const& cohort = cohorts[c];
        StageStep const step = stage_step(stride, cohort.sampling, stage);
        total += std::uint64_t{n_in_step(step, cohort.position_begin, cohort.position_end)} *
                 cohort.n_panels;
        require(total < kNone32, "fewer than 2^32 visits of a stage");
        visit_begins.push_back(static_cast<std::uint32_t>(total));
      }
    }
  }
}

double DensePlan::queries_per_tile() const {
  double met = 0.0;
  for (Cohort const& cohort : cohorts) {
    double n = 0.0;
    for (std::uint32_t p = 0; p < cohort.n_panels; ++p)
      n += panels[cohort.panel_begin + p].n_queries;
    met += n * (cohort.position_end - cohort.position_begin);
  }
  return n_tiles == 0 ? 0.0 : met / n_tiles;
}

DenseBatch DensePlan::batch() const {
  DenseBatch out{};
  out.ranges = ranges.data();
  out.groups = groups.data();
  out.runs = runs.data();
  out.cohorts = cohorts.data();
  out.panels = panels.data();
  out.panel_queries = panel_queries.data();
  out.panel_places = panel_places.data();
  out.panel_seeds = panel_seeds.data();
  out.panel_groups = panel_groups.data();
  out.visit_begins = visit_begins.data();
  std::copy(widths.begin(), widths.end(), out.widths);
  out.n_widths = static_cast<std::uint32_t>(widths.size());
  out.seed_rows = seed_rows.data();
  out.guess_ranks = guess_ranks.data();
  out.n_stages = n_stages;
  out.stride = stride;
  out.n_queries = n_queries;
  out.n_panels = static_cast<std::uint32_t>(panels.size());
  out.n_plane_queries = n_plane_queries;
  return out;
}

}  // namespace hyrecall
