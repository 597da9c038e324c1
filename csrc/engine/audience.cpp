#include "engine/audience.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/parallel.hpp"

namespace hyrecall {

ResolvedScopes resolve_scopes(Snapshot const& snapshot, Request const& request) {
  ResolvedScopes scopes(request.scopes.size());
  parallel_for(scopes.size(), request.threads, [&](int, std::size_t s) {
    for (auto const& view : snapshot.segments)
      scopes[s].push_back(resolve_scope(view->segment(), *request.scopes[s]));
  });
  return scopes;
}

QueryGroups::QueryGroups(Request const& request) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
  for (std::size_t q = 0; q < request.n_queries; ++q)
    numbers[{request.scope_of[q], request.filter_of[q]}] = 0;
  for (auto& [pair, number] : numbers) {
    number = static_cast<std::uint32_t>(scope_of.size());
    scope_of.push_back(pair.first);
    filter_of.push_back(pair.second);
  }
  for (std::size_t q = 0; q < request.n_queries; ++q)
    group_of.push_back(numbers[{request.scope_of[q], request.filter_of[q]}]);
}

Audience::Audience(Snapshot const& snapshot, Request const& request, ResolvedScopes const& scopes)
    : groups_(request), tiles_(groups_.scope_of.size()) {
  parallel_for(tiles_.size(), request.threads, [&](int, std::size_t group) {
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
