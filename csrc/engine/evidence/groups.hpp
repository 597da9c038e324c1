// Orders and cuts the whole lists of a reply: the best row of each thread as its hit, or the rows
// by a weighted sum of their features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/reply.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

struct GroupParams {
  std::size_t offset = 0, limit = 0;  // the page of the hits
  std::size_t most_members = 0;       // of a hit
};

// The best rows of the threads of hits, each hit itself first.
struct ThreadMembers {
  std::vector<std::int64_t> offsets{0};  // [n_hits + 1]
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;
  std::vector<double> score;
};

// Leaves the hits on the page in a reply that has whole lists, and returns their members. A row in
// no thread is a hit by itself. The segments must have threads.
ThreadMembers group_by_thread(Snapshot const& snapshot, GroupParams const& params,
                              ReplyArrays& reply);

// A feature of a row and its weight, as hr.Linear has them.
struct LinearTerm {
  enum class Kind : std::uint8_t { kFused, kAgreement, kScore, kRank, kAddend };
  Kind kind = Kind::kFused;
  std::size_t at = 0;      // the arm, or the addend of evidence
  std::int64_t steps = 0;  // kScore: of the candidate so many places behind in the row's thread
  double weight = 0.0;
};

struct LinearScores {
  std::size_t n_ranked = 0;     // entries of the whole lists
  std::vector<double> fused;    // [n_hits] the scores before
  std::vector<Seq> seqs;        // [n_hits] what decided between equal scores
  std::vector<double> addends;  // [n_hits, n_terms]
};

// Scores a reply that has whole lists, orders each by (score desc, seq asc) and leaves the page.
LinearScores score_by_features(Snapshot const& snapshot, std::span<LinearTerm const> terms,
                               GroupParams const& page, ReplyArrays& reply);

}  // namespace hyrecall
