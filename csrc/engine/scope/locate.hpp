// From keys to documents: of any cell for who writes, within a query's audience for who reads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/scope/audience.hpp"
#include "engine/segment/keys.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

inline constexpr DocRef kNowhere{kNone32, kNone32};

// Where (cell, key) lives, newest segment first; an identity is live at most once.
DocRef locate(Snapshot const& snapshot, std::string_view cell, KeyValue const& key);

// Where the i-th cell of `parts` and the i-th key live, for every key.
std::vector<DocRef> locate_rows(Snapshot const& snapshot, std::span<CellPart const> parts,
                                KeyColumn const& keys);

// Every live document with one of the keys in that key's scope. scope_of: [n_keys] of `scopes`.
std::vector<DocRef> locate_keys(Snapshot const& snapshot, KeyColumn const& keys,
                                std::span<std::shared_ptr<Scope const> const> scopes,
                                std::span<std::uint32_t const> scope_of);

// A document that a query may see, with the key's place among those asked for.
struct LocatedDoc {
  std::size_t key;
  DocRef doc;
};
// Every document with one of the keys that the key's query may see, key by key. query_of: [n_keys].
std::vector<LocatedDoc> locate_visible(Snapshot const& snapshot, BatchRequest const& request,
                                       ResolvedScopes const& scopes, Audience const& audience,
                                       KeyColumn const& keys,
                                       std::span<std::uint32_t const> query_of);

}  // namespace hyrecall
