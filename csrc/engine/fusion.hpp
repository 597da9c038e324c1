// Joining the arms' lists of one query into one.
#pragma once

#include <span>
#include <vector>

#include "engine/request.hpp"

namespace hyrecall {

struct FusedDoc {
  std::uint32_t doc;  // index into the pool
  double score;
};

struct FusedList {
  std::vector<FusedDoc> docs;
  // What explain() needs to scale again: lowest and highest score of each arm in the pool (their
  // mean and deviation where the scale is by distribution), then the arms' weights, then what
  // normalize divided by. [3 n_arms + 1]
  std::vector<double> scales;
};

// Ranks of every document in every arm: [n_docs, n_arms], from 1; 0 = outside the arm's list.
std::vector<std::int32_t> ranks_of(Pool const& pool, std::size_t n_arms);

// The first offset + limit of the pool by (score desc, seq asc), floors and normalisation applied.
// A document outside an arm's list keeps the completed score there; a null component adds 0; a
// document's contributions are added largest first.
FusedList fuse(Request const& request, Pool const& pool, std::span<std::int32_t const> ranks);

}  // namespace hyrecall
