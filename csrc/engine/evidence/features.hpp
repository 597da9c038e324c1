// The features of hr.Linear: what each of them gives a candidate, and their weighted sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/evidence/groups.hpp"
#include "engine/request/reply.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

// A feature and its weight.
struct LinearTerm {
  enum class Kind : std::uint8_t {
    kFused,      // the fused score
    kAgreement,  // the least of the scores in the first `at` arms, of those that list a candidate
    kScore,      // in arm `at`, scaled over the candidates
    kRank,       // 1 / rank there
    kGiven,      // the given value `at`
    kValue,      // 1 where column `at` has the wanted value
    kAge,        // what the age by column `at` leaves of 1
    kShared,     // the best product of a fused score and the share of common tags in column `at`
  };
  Kind kind = Kind::kFused;
  std::size_t at = 0;
  std::int64_t steps = 0;  // kScore: of the candidate so many places behind in the row's thread
  std::int64_t tick = 1;   // kAge: nanoseconds of the column's unit
  double half_life = 1.0;  // kAge: in seconds
  std::shared_ptr<AttributeColumn const> wanted{};  // kValue: of one row
  double weight = 0.0;

  bool reads_column() const { return kind >= Kind::kValue; }
};

struct LinearRules {
  std::vector<LinearTerm> terms;
  // The scores that each arm has, as columns of the lists: one for each table, none if it does not
  // run. An arm's score is the best of them.
  std::vector<std::vector<std::size_t>> arms;
};

// Where a candidate stands.
struct Stand {
  std::uint32_t thread = kNone32;
  PlaceKey key{};
};

// The whole lists of a batch, as features read them.
struct FeatureLists {
  std::span<std::int64_t const> offsets;  // [n_queries + 1]
  std::size_t n_arms = 0;
  std::span<float const> scores;        // [n, n_arms], kNoScore = null
  std::span<std::int32_t const> ranks;  // [n, n_arms], 0 = outside the arm's list
  std::span<double const> fused;        // [n]
  std::span<std::int64_t const> ties;   // [n] what decides between equal fused scores
  std::span<double const> given;        // [n, n_given], NaN = null
  // The row of each entry's columns: [n], of the segment's.
  std::span<std::uint32_t const> segment;
  std::span<Row const> row;
  std::vector<std::vector<AttributeColumn const*>> columns{};  // [column][segment]
  std::vector<Stand> stands{};                                 // [n] of rules with steps
  std::int64_t now = 0;                                        // microseconds since 1970

  std::size_t size() const { return fused.size(); }
};

struct WeightedSums {
  std::vector<double> addends;  // [n, n_terms] weight x feature
  std::vector<double> scores;   // [n]
};

// Refuses rules that name what the lists do not have.
WeightedSums weigh_features(FeatureLists const& lists, LinearRules const& rules, int threads);

struct LinearScores {
  std::size_t n_ranked = 0;     // entries of the whole lists
  std::vector<double> fused;    // [n_hits] the scores before
  std::vector<Seq> seqs;        // [n_hits] what decided between equal scores
  std::vector<double> addends;  // [n_hits, n_terms]
};

// Scores a reply that has whole lists, orders each by (score desc, seq asc) and leaves the page.
// The given values are the addends of evidence, the columns the attributes of the snapshot. now: as
// FeatureLists has it.
LinearScores score_by_features(Snapshot const& snapshot, LinearRules const& rules,
                               GroupParams const& page, std::int64_t now, int threads,
                               ReplyArrays& reply);

}  // namespace hyrecall
