// Arms whose candidates come from outside the engine: a request lists them, or other rules than
// text and vectors make them.
#pragma once

#include <span>
#include <vector>

#include "engine/audience.hpp"
#include "engine/topk.hpp"

namespace hyrecall {

// A query's list: what its group may see of the given documents, each once by its best score, that
// passes the floor; by (score desc, seq asc), cut at depth.
std::vector<Candidate> list_candidates(Snapshot const& snapshot, Audience const& audience,
                                       std::uint32_t group, std::span<ListedDoc const> given,
                                       Floor<float> const& floor, std::size_t depth);

struct NewestDoc {
  Candidate doc;
  std::int64_t code;  // of the attribute, larger is newer; without a value the least int64
  bool has_value;
};

// The n newest rows by (value desc, seq asc) of an attribute column with one number or time a row;
// those without a value (null, NaN) come last, and only where with_missing asks for them. Reads a
// tile only if its zone map leaves hope.
std::vector<NewestDoc> newest_rows(Snapshot const& snapshot, GroupTiles const& tiles,
                                   std::size_t attribute, std::size_t n, bool with_missing);

}  // namespace hyrecall
