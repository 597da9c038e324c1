#include "engine/scope/locate.hpp"

#include "core/error.hpp"
#include "core/interrupt.hpp"

namespace hyrecall {

DocRef locate(Snapshot const& snapshot, std::string_view cell, KeyValue const& key) {
  for (std::size_t s = snapshot.segments.size(); s-- > 0;) {
    Row const row = snapshot.segments[s]->find(cell, key);
    if (row != kNone32) return {static_cast<std::uint32_t>(s), row};
  }
  return kNowhere;
}

std::vector<DocRef> locate_rows(Snapshot const& snapshot, std::span<CellPart const> parts,
                                KeyColumn const& keys) {
  std::vector<DocRef> found(n_keys(keys));
  SteadyPoll poll;
  for (std::size_t i = 0; i < found.size(); ++i) {
    poll.step();
    found[i] = locate(snapshot, encode_cell(parts, i), key_at(keys, i));
  }
  return found;
}

std::vector<DocRef> locate_keys(Snapshot const& snapshot, KeyColumn const& keys,
                                std::span<std::shared_ptr<Scope const> const> scopes,
                                std::span<std::uint32_t const> scope_of) {
  require(scope_of.size() == n_keys(keys), "one scope a key");
  std::vector<DocRef> found;
  SteadyPoll poll;
  for (std::size_t i = 0; i < scope_of.size(); ++i) {
    poll.step();
    for (std::string const& cell : scopes[scope_of[i]]->cells) {
      DocRef const doc = locate(snapshot, cell, key_at(keys, i));
      if (doc != kNowhere) found.push_back(doc);
    }
  }
  return found;
}

std::vector<LocatedDoc> locate_visible(Snapshot const& snapshot, BatchRequest const& request,
                                       ResolvedScopes const& scopes, Audience const& audience,
                                       KeyColumn const& keys,
                                       std::span<std::uint32_t const> query_of) {
  require(n_keys(keys) == query_of.size(), "one query a key");
  std::vector<LocatedDoc> found;
  for (std::size_t i = 0; i < query_of.size(); ++i) {
    std::uint32_t const query = query_of[i];
    require(query < request.n_queries, "a known query");
    ScopeOnSegments const& scope = scopes[request.scope_of[query]];
    for (std::uint32_t s = 0; s < snapshot.segments.size(); ++s) {
      Segment::Parts const& parts = snapshot.segments[s]->segment().p;
      for (std::uint32_t cell : scope[s].cells) {
        DocRef const doc{s, parts.keys.find(parts.cells, cell, key_at(keys, i))};
        if (doc.row == kNone32 || !audience.sees(audience.group_of(query), doc)) continue;
        found.push_back({i, doc});
      }
    }
  }
  return found;
}

}  // namespace hyrecall
