// Who may see what: the distinct (scope, filter) pairs of a batch, each a group of queries, and the
// rows of one snapshot that a group may see.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

using ScopeOnSegments = SmallVector<ScopeRows, 1>;    // [segment]
using ResolvedScopes = std::vector<ScopeOnSegments>;  // [scope]
ResolvedScopes resolve_scopes(Snapshot const& snapshot, BatchRequest const& request);
// How many scopes, or queries of theirs, a thread takes at once: what is scattered over many ranges
// takes longer than handing it out.
std::size_t run_of(ResolvedScopes const& scopes);

// The distinct (scope, filter) pairs of a batch, the scopes whole or of one table.
struct QueryGroups {
  explicit QueryGroups(BatchRequest const& request, std::uint32_t table = kAllTables);

  std::vector<std::uint32_t> group_of;   // [n_queries]
  std::vector<std::uint32_t> by_group;   // [n_queries] the queries, group after group
  std::vector<std::uint32_t> scope_of;   // [n_groups]
  std::vector<std::uint32_t> filter_of;  // [n_groups], kNone32 = none
};

// The groups of a request, each made once: of the whole scopes, and of each table.
class RequestGroups {
 public:
  // whole: those of the whole scopes too where arms have tables.
  explicit RequestGroups(BatchRequest const& request, bool whole = true);

  bool has_whole() const { return whole_.has_value(); }
  std::size_t n_tables() const { return tables_.size(); }
  QueryGroups const& of(std::uint32_t table) const {
    return table == kAllTables ? whole_.value() : tables_[table];
  }

 private:
  std::optional<QueryGroups> whole_;
  std::vector<QueryGroups> tables_;
};

// By segment: the tiles of rows that a group may see, rising.
using GroupTiles = std::vector<std::vector<SelectedTile>>;

class Audience {
 public:
  // groups: of the request, whole or of one table; they must outlive this.
  Audience(Snapshot const& snapshot, BatchRequest const& request, ResolvedScopes const& scopes,
           QueryGroups const& groups);

  std::size_t n_groups() const { return groups_->scope_of.size(); }
  std::uint32_t group_of(std::size_t query) const { return groups_->group_of[query]; }
  std::span<std::uint32_t const> by_group() const { return groups_->by_group; }
  std::uint32_t scope_of(std::size_t group) const { return groups_->scope_of[group]; }
  GroupTiles const& tiles(std::size_t group) const { return tiles_[group]; }
  // Whether the group may see the row: it lives, is in the scope and passes the filter.
  bool sees(std::size_t group, DocRef doc) const;

 private:
  QueryGroups const* groups_;
  std::vector<GroupTiles> tiles_;  // [n_groups]
};

// The audiences of a request's arms: one of the whole scopes, or one for each table.
class Audiences {
 public:
  // One for all that `groups` has, which must outlive this.
  Audiences(Snapshot const& snapshot, BatchRequest const& request, ResolvedScopes const& scopes,
            RequestGroups const& groups);

  Audience const& of(std::uint32_t table) const {
    return table == kAllTables ? whole_.value() : tables_[table];
  }
  // One of them, for what is alike in all: the order of queries, say.
  Audience const& any() const { return whole_ ? *whole_ : tables_.front(); }

 private:
  std::optional<Audience> whole_;
  std::vector<Audience> tables_;
};

// Calls f(DocRef) for every row of the tiles, by segment and row.
template <typename F>
void for_each_row(GroupTiles const& tiles, F&& f) {
  for (std::uint32_t s = 0; s < tiles.size(); ++s) {
    for (SelectedTile const& selected : tiles[s])
      for_each_bit(selected.mask, [&](Row i) { f(DocRef{s, selected.tile * kTileRows + i}); });
  }
}

}  // namespace hyrecall
