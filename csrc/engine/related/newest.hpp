// The newest documents by an attribute.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

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
