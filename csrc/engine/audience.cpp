#include "engine/audience.hpp"

#include <algorithm>
#include <numeric>

#include "core/parallel.hpp"

namespace hyrecall {

ResolvedScopes resolve_scopes(Snapshot const& snapshot, Request const& request) {
  ResolvedScopes scopes(request.scopes.size());
  parallel_runs(scopes.size(), kShortRun, request.threads, [&](int, std::size_t s) {
    scopes[s].reserve(snapshot.segments.size());
    for (auto const& view : snapshot.segments)
      scopes[s].push_back(resolve_scope(view->segment(), *request.scopes[s], request.threads));
  });
  return scopes;
}

// By (scope, filter): equal neighbours of that order are a group.
QueryGroups::QueryGroups(Request const& request) : group_of(request.n_queries) {
  std::vector<std::uint32_t> order(request.n_queries);
  std::iota(order.begin(), order.end(), 0u);
  auto const pair_of = [&](std::uint32_t q) {
    return std::uint64_t{request.scope_of[q]} << 32 | request.filter_of[q];
  };
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return pair_of(a) < pair_of(b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || pair_of(order[i]) != pair_of(order[i - 1])) {
      scope_of.push_back(request.scope_of[order[i]]);
      filter_of.push_back(request.filter_of[order[i]]);
    }
    group_of[order[i]] = static_cast<std::uint32_t>(scope_of.size()) - 1;
  }
}

Audience::Audience(Snapshot const& snapshot, Request const& request, ResolvedScopes const& scopes)
    : groups_(request), tiles_(groups_.scope_of.size()) {
  parallel_runs(tiles_.size(), kShortRun, request.threads, [&](int, std::size_t group) {
    tiles_[group].reserve(snapshot.segments.size());
    std::uint32_t const number = groups_.filter_of[group];
    FilterProgram const* const filter = number == kNone32 ? nullptr : request.filters[number].get();
    for (std::size_t s = 0; s < snapshot.segments.size(); ++s) {
      tiles_[group].push_back(
          select_tiles(*snapshot.segments[s], scopes[groups_.scope_of[group]][s], filter));
    }
  });
}

bool Audience::sees(std::size_t group, std::uint32_t segment, Row row) const {
  if (segment >= tiles_[group].size()) return false;
  std::vector<SelectedTile> const& tiles = tiles_[group][segment];
  Row const tile = row / kTileRows;
  auto const at =
      std::lower_bound(tiles.begin(), tiles.end(), tile,
                       [](SelectedTile const& one, Row wanted) { return one.tile < wanted; });
  return at != tiles.end() && at->tile == tile && at->mask.test(row % kTileRows);
}

}  // namespace hyrecall
