#include "engine/scope/audience.hpp"

#include <algorithm>
#include <numeric>

#include "core/parallel.hpp"

namespace hyrecall {

ResolvedScopes resolve_scopes(Snapshot const& snapshot, BatchRequest const& request) {
  ResolvedScopes scopes(request.scopes.size());
  std::size_t n_cells = 0;
  for (auto const& scope : request.scopes) n_cells += scope->cells.size();
  std::size_t const run = n_cells > kShortRun * scopes.size() ? 1 : kShortRun;
  // Scopes are shared among the threads, and the cells of a scope among those that are left.
  int const threads = request.threads / static_cast<int>(std::max<std::size_t>(scopes.size(), 1));
  parallel_runs(scopes.size(), run, request.threads, [&](int, std::size_t s) {
    scopes[s].reserve(snapshot.segments.size());
    for (auto const& view : snapshot.segments)
      scopes[s].push_back(resolve_scope(view->segment(), *request.scopes[s], threads));
  });
  return scopes;
}

std::size_t run_of(ResolvedScopes const& scopes) {
  bool const is_scattered = std::any_of(scopes.begin(), scopes.end(), [](auto const& scope) {
    return std::any_of(scope.begin(), scope.end(),
                       [](ScopeRows const& rows) { return rows.ranges.size() > 1; });
  });
  return is_scattered ? 1 : kShortRun;
}

// By (scope, filter): equal neighbours of that order are a group.
QueryGroups::QueryGroups(BatchRequest const& request, std::uint32_t table)
    : group_of(request.n_queries) {
  std::span<std::uint32_t const> const scopes = request.scopes_of(table);
  std::span<std::uint32_t const> const filters = request.filter_of;
  // Queries are counted out to their scopes; those of a scope are few, or mostly of one filter.
  std::vector<std::uint32_t> ends(request.scopes.size() + 1, 0);
  for (std::size_t q = 0; q < request.n_queries; ++q) ends[scopes[q] + 1] += 1;
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  by_group.resize(request.n_queries);
  for (std::uint32_t q = 0; q < request.n_queries; ++q) by_group[ends[scopes[q]]++] = q;
  auto const by_filter = [&](std::uint32_t a, std::uint32_t b) {
    return filters[a] != filters[b] ? filters[a] < filters[b] : a < b;
  };
  scope_of.reserve(std::min(request.n_queries, request.scopes.size()));
  filter_of.reserve(scope_of.capacity());
  for (std::size_t begin = 0; begin < by_group.size();) {
    std::uint32_t const scope = scopes[by_group[begin]];
    std::span const own = std::span(by_group).subspan(begin, ends[scope] - begin);
    if (!std::is_sorted(own.begin(), own.end(), by_filter))
      std::sort(own.begin(), own.end(), by_filter);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i == 0 || filters[own[i]] != filters[own[i - 1]]) {
        scope_of.push_back(scope);
        filter_of.push_back(filters[own[i]]);
      }
      group_of[own[i]] = static_cast<std::uint32_t>(scope_of.size()) - 1;
    }
    begin = ends[scope];
  }
}

RequestGroups::RequestGroups(BatchRequest const& request, bool whole) {
  if (whole || request.tables.empty()) whole_.emplace(request);
  tables_.reserve(request.tables.size());
  for (std::uint32_t table = 0; table < request.tables.size(); ++table)
    tables_.emplace_back(request, table);
}

Audience::Audience(Snapshot const& snapshot, BatchRequest const& request,
                   ResolvedScopes const& scopes, QueryGroups const& groups)
    : groups_(&groups), tiles_(groups.scope_of.size()) {
  parallel_runs(tiles_.size(), run_of(scopes), request.threads, [&](int, std::size_t group) {
    tiles_[group].reserve(snapshot.segments.size());
    std::uint32_t const number = groups_->filter_of[group];
    FilterProgram const* const filter = number == kNone32 ? nullptr : request.filters[number].get();
    for (std::size_t s = 0; s < snapshot.segments.size(); ++s) {
      tiles_[group].push_back(
          select_tiles(*snapshot.segments[s], scopes[groups_->scope_of[group]][s], filter));
    }
  });
}

Audiences::Audiences(Snapshot const& snapshot, BatchRequest const& request,
                     ResolvedScopes const& scopes, RequestGroups const& groups) {
  if (groups.has_whole()) whole_.emplace(snapshot, request, scopes, groups.of(kAllTables));
  tables_.reserve(groups.n_tables());
  for (std::uint32_t table = 0; table < groups.n_tables(); ++table)
    tables_.emplace_back(snapshot, request, scopes, groups.of(table));
}

bool Audience::sees(std::size_t group, DocRef doc) const {
  if (doc.segment >= tiles_[group].size()) return false;
  std::vector<SelectedTile> const& tiles = tiles_[group][doc.segment];
  Row const tile = doc.row / kTileRows;
  if (tiles.empty() || tile < tiles.front().tile) return false;
  std::size_t const guess = tile - tiles.front().tile;  // right where no tile between is missing
  if (guess < tiles.size() && tiles[guess].tile == tile)
    return tiles[guess].mask.test(doc.row % kTileRows);
  auto const at =
      std::lower_bound(tiles.begin(), tiles.end(), tile,
                       [](SelectedTile const& one, Row wanted) { return one.tile < wanted; });
  return at != tiles.end() && at->tile == tile && at->mask.test(doc.row % kTileRows);
}

}  // namespace hyrecall
