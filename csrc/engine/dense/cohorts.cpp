#include "engine/dense/cohorts.hpp"

#include <algorithm>
#include <cmath>

#include "engine/dense/column.hpp"

namespace hyrecall {
namespace {

// Codes of a panel of queries, which should stay in the second-level cache while rows are read.
constexpr std::size_t kPanelBytes = 512 * 768;
constexpr std::size_t kLeastGroup = 64;
constexpr std::size_t kSliceRows = 4'096;  // a scan is split among threads above this many rows
constexpr std::size_t kSlicesAThread = 4;  // so that threads end at about the same time
// The first pass leaves a few times `depth` rows; if there are hardly more, it saves nothing.
constexpr std::size_t kPlainRowsADepth = 4;
constexpr std::size_t kPlainRows = 160;  // scoring them takes as long as quantising a query
// With fewer rows, making a query's head costs what it saves, or too many rows pass. Measured:
// heads gain nothing for 2,000 x depth rows.
constexpr std::size_t kLeastHeadRows = 16'384;
constexpr std::size_t kLeastHeadRowsADepth = 3'000;

struct Group {
  std::size_t number;
  std::vector<std::uint32_t> queries;
  std::size_t n_rows;
  std::size_t segment;  // the first that has rows of the group
};

std::size_t count_rows(GroupTiles const& tiles) {
  std::size_t n = 0;
  for (auto const& some : tiles) {
    for (SelectedTile const& one : some) n += static_cast<std::size_t>(one.mask.count());
  }
  return n;
}

// Whether at least half of the tiles of b are tiles of a.
bool shares_tiles(std::span<SelectedTile const> a, std::span<SelectedTile const> b) {
  if (a.empty() || b.empty() || a.back().tile < b.front().tile || b.back().tile < a.front().tile)
    return false;
  std::size_t n_shared = 0;
  auto at = a.begin();
  for (SelectedTile const& one : b) {
    at = std::lower_bound(at, a.end(), one.tile,
                          [](SelectedTile const& x, Row tile) { return x.tile < tile; });
    if (at == a.end()) break;
    n_shared += at->tile == one.tile ? 1 : 0;
  }
  return 2 * n_shared >= b.size();
}

std::vector<Group> groups_of(BatchRequest const& request, DenseRequest const& arm,
                             Audience const& audience) {
  std::vector<Group> groups(audience.n_groups());
  for (std::uint32_t q = 0; q < request.n_queries; ++q) {
    if (arm.query(q).inverse_norm != 0.0f) groups[audience.group_of(q)].queries.push_back(q);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GroupTiles const& tiles = audience.tiles(g);
    groups[g].number = g;
    groups[g].n_rows = count_rows(tiles);
    groups[g].segment = 0;
    while (groups[g].segment < tiles.size() && tiles[groups[g].segment].empty())
      ++groups[g].segment;
  }
  std::erase_if(groups, [](Group const& g) { return g.queries.empty() || g.n_rows == 0; });
  // Sort groups by their first rows; as a rule, only neighbours in this order share tiles.
  std::sort(groups.begin(), groups.end(), [&](Group const& a, Group const& b) {
    if (a.segment != b.segment) return a.segment < b.segment;
    Row const x = audience.tiles(a.number)[a.segment].front().tile;
    Row const y = audience.tiles(b.number)[b.segment].front().tile;
    return x != y ? x < y : a.number < b.number;
  });
  return groups;
}

double work_of(QueryCohort const& cohort) {
  return static_cast<double>(cohort.n_rows) * (8.0 + static_cast<double>(cohort.n_queries));
}

}  // namespace

std::vector<QueryCohort> plan_cohorts(Snapshot const& snapshot, BatchRequest const& request,
                                      DenseRequest const& arm, Audience const& audience) {
  std::size_t dim = 1;
  bool has_heads = false;
  for (auto const& view : snapshot.segments) {
    DenseColumn const& column = *view->segment().p.dense[arm.column];
    dim = std::max<std::size_t>(dim, column.dim);
    has_heads = has_heads || !column.head.empty();
  }
  std::size_t const most = std::max(kLeastGroup, kPanelBytes / dim / 32 * 32);
  FirstPassChoice const first_pass = request.settings.first_pass;
  std::size_t const plain_below =
      forces_plane(first_pass) ? 0 : kPlainRows + kPlainRowsADepth * request.depth;
  // Several queries share one read of the int8 plane, but each scores its own rows at random.
  auto const reads_heads = [&](QueryCohort const& cohort) {
    bool const may_pay = first_pass == FirstPassChoice::kAny && cohort.n_queries == 1 &&
                         cohort.n_rows >= kLeastHeadRows &&
                         cohort.n_rows / kLeastHeadRowsADepth >= request.depth;
    return has_heads && (may_pay || forces_heads(first_pass));
  };

  std::vector<QueryCohort> cohorts;
  std::size_t leader = 0;  // group of the last cohort's first member
  std::size_t leader_segment = 0;
  for (Group const& group : groups_of(request, arm, audience)) {
    bool const is_plain = group.n_rows < plain_below || first_pass == FirstPassChoice::kRows;
    bool const joins = !cohorts.empty() && cohorts.back().is_plain == is_plain &&
                       cohorts.back().n_queries + group.queries.size() <= most &&
                       leader_segment == group.segment &&
                       shares_tiles(audience.tiles(leader)[group.segment],
                                    audience.tiles(group.number)[group.segment]);
    for (std::size_t begin = 0; begin < group.queries.size(); begin += most) {
      std::size_t const end = std::min(group.queries.size(), begin + most);
      if (!joins || begin > 0) {
        cohorts.emplace_back().is_plain = is_plain;
        leader = group.number;
        leader_segment = group.segment;
      }
      QueryCohort& cohort = cohorts.back();
      cohort.members.push_back({group.number,
                                group.n_rows,
                                {group.queries.begin() + static_cast<std::ptrdiff_t>(begin),
                                 group.queries.begin() + static_cast<std::ptrdiff_t>(end)}});
      cohort.n_queries += end - begin;
      cohort.n_rows = std::max(cohort.n_rows, group.n_rows);
    }
  }
  for (QueryCohort& cohort : cohorts) cohort.reads_heads = !cohort.is_plain && reads_heads(cohort);
  std::stable_sort(cohorts.begin(), cohorts.end(), [](QueryCohort const& a, QueryCohort const& b) {
    return work_of(a) > work_of(b);
  });
  auto const threads = static_cast<std::size_t>(std::max(request.threads, 1));
  double total = 0.0;
  for (QueryCohort const& cohort : cohorts) total += work_of(cohort);
  double const share = total / static_cast<double>(threads * kSlicesAThread);
  for (QueryCohort& cohort : cohorts) {
    if (threads == 1) break;
    auto const wanted = static_cast<std::size_t>(std::ceil(work_of(cohort) / share));
    cohort.n_slices =
        std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(cohort.n_rows / kSliceRows, 1));
  }
  return cohorts;
}

}  // namespace hyrecall
