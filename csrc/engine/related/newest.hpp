// The newest documents by an attribute.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

struct NewestDoc {
  Candidate candidate;
  std::int64_t code;  // of the attribute, larger is newer; without a value the least int64
  bool has_value;
};

// The n newest rows by (value desc, seq asc) of an attribute column with one number or time a row;
// those without a value (null, NaN) come last, and only where with_missing asks for them. Reads a
// tile only if its zone map leaves hope.
std::vector<NewestDoc> newest_rows(Snapshot const& snapshot, GroupTiles const& tiles,
                                   std::size_t attribute, std::size_t n, bool with_missing);

// Per group of the audience its n newest rows with a score: 1 / place among the distinct values, 0
// without a value.
std::vector<std::vector<Candidate>> newest_candidates(Snapshot const& snapshot,
                                                      Audience const& audience,
                                                      std::size_t attribute, std::size_t n,
                                                      bool with_missing, int threads);

}  // namespace hyrecall
