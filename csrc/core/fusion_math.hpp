// The arithmetic that joins the arms' lists of one query, over plain arrays: for host and device,
// in an order of sums that is part of the interface. docs/scoring.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/formulas.hpp"
#include "core/score_range.hpp"
#include "core/types.hpp"

namespace hyrecall {

// A component that was not computed: null, not 0.
inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// kNone: exactly one arm, whose score is the score.
enum class FusionKind : std::uint8_t { kNone, kRrf, kWeightedSum, kMax };
enum class FusionScale : std::uint8_t { kNone, kMinmax, kDistribution, kBest, kClip, kUnit };

// What an arm's score is worth in WeightedSum, Max and DBSF, before its weight.
struct ArmScale {
  FusionScale scale = FusionScale::kNone;
  ScoreRange range{};         // of the scores that count; an arm that lists nothing has none
  Moments moments{0.0, 0.0};  // of the same, in rank order; only of kDistribution

  HYRECALL_HD double worth(double score) const {
    switch (scale) {
      case FusionScale::kMinmax:
        return minmax_scale(score, range.low, range.high);
      case FusionScale::kDistribution:
        return dbsf_scale(score, moments);
      case FusionScale::kBest:
        return best_scale(score, range.high);
      case FusionScale::kClip:
        return clip_scale(score);
      case FusionScale::kUnit:
        return unit_scale(score);
      case FusionScale::kNone:
        break;
    }
    return score;
  }
  // The same for a document that stands outside the pool that the range is of: cut into what the
  // pool's own scores are worth. A score of the pool is worth the same either way.
  HYRECALL_HD double worth_within(double score) const {
    double const value = worth(score);
    if (scale == FusionScale::kMinmax) {
      // Where all scores of the pool are equal they are worth 1, and what is below is not.
      if (score < range.low) return 0.0;
      return 1.0 < value ? 1.0 : value;
    }
    if (scale == FusionScale::kBest) return 1.0 < value ? 1.0 : value;
    if (scale == FusionScale::kDistribution && moments.deviation == 0.0)
      return score < moments.mean ? 0.0 : value;
    return value;
  }
  // The two numbers that a score is scaled with.
  HYRECALL_HD double first_number() const {
    return scale == FusionScale::kDistribution ? moments.mean : range.low;
  }
  HYRECALL_HD double second_number() const {
    return scale == FusionScale::kDistribution ? moments.deviation : range.high;
  }
  // The most that a document can get here.
  HYRECALL_HD double best() const {
    double const most = range.any ? worth(range.high) : 0.0;
    return most < 0.0 ? 0.0 : most;
  }
};

// The mean of what an arm's scores are worth; they come in rank order, n >= 1. Value as in
// moments().
template <typename Value>
HYRECALL_HD inline double mean_worth(ArmScale const& scale, Value const* scores, std::size_t n) {
  double sum = 0.0;
  HYRECALL_ROLLED
  for (std::size_t i = 0; i < n; ++i) sum = sum + scale.worth(static_cast<double>(scores[i]));
  return sum / static_cast<double>(n);
}

// How the lists of a query are joined.
struct FusionRules {
  FusionKind kind = FusionKind::kNone;
  bool complete = true;            // scores of documents outside an arm's own list count too
  std::uint32_t n_arms_a_doc = 0;  // in which one document can be
  double rank_constant = 60.0;
  std::span<double const> weights;   // [n_arms]
  std::span<ArmScale const> scales;  // [n_arms], not of kNone and kRrf
  bool within = false;               // scores of documents outside the pool are cut
};

// rank: 0 = outside the arm's list.
HYRECALL_HD inline bool counts(float score, std::int32_t rank, bool complete) {
  return score != kNoScore && (complete || rank > 0);
}

// Adds numbers, the largest first; leaves them in that order. Arms are few, so that a sort by
// insertion does.
HYRECALL_HD inline double sum_largest_first(std::span<double> values) {
  HYRECALL_ROLLED
  for (std::size_t i = 1; i < values.size(); ++i) {
    double const value = values[i];
    std::size_t at = i;
    for (; at > 0 && values[at - 1] < value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
  double sum = 0.0;
  HYRECALL_ROLLED
  for (double value : values) sum = sum + value;
  return sum;
}

// The largest of numbers. A missing component counts 0, so unless the list is whole the maximum is
// never below 0.
HYRECALL_HD inline double largest(std::span<double const> values, bool is_whole) {
  double most = values.empty() ? 0.0 : values[0];
  HYRECALL_ROLLED
  for (double value : values) most = most < value ? value : most;
  return is_whole || !(most < 0.0) ? most : 0.0;
}

// What a document gets from all arms; never -0. scores, ranks: [n_arms]; room: [n_arms] scratch.
HYRECALL_HD inline double fused_score(FusionRules const& rules, std::span<float const> scores,
                                      std::span<std::int32_t const> ranks, std::span<double> room) {
  std::size_t n = 0;
  HYRECALL_ROLLED
  for (std::size_t arm = 0; arm < scores.size(); ++arm) {
    if (rules.kind == FusionKind::kRrf) {
      if (ranks[arm] > 0) room[n++] = rrf_term(rules.weights[arm], rules.rank_constant, ranks[arm]);
    } else if (rules.kind == FusionKind::kNone) {
      if (counts(scores[arm], ranks[arm], rules.complete)) room[n++] = scores[arm];
    } else if (rules.scales[arm].range.any && counts(scores[arm], ranks[arm], rules.complete)) {
      double const score = scores[arm];
      room[n++] = rules.weights[arm] * (rules.within ? rules.scales[arm].worth_within(score)
                                                     : rules.scales[arm].worth(score));
    }
  }
  std::span<double> const found = room.first(n);
  double const score = rules.kind == FusionKind::kMax ? largest(found, n == rules.n_arms_a_doc)
                                                      : sum_largest_first(found);
  return score + 0.0;
}

// The most that a document of a table can get, by which normalize divides; not of kNone.
// table_of: [n_arms], kNone32 = an arm of every table; list_sizes: [n_arms]; room: [n_arms].
HYRECALL_HD inline double best_of_table(FusionRules const& rules, std::uint32_t table,
                                        std::span<std::uint32_t const> table_of,
                                        std::span<std::uint32_t const> list_sizes,
                                        std::span<double> room) {
  std::size_t n = 0;
  HYRECALL_ROLLED
  for (std::size_t arm = 0; arm < table_of.size(); ++arm) {
    if (table_of[arm] != kNone32 && table_of[arm] != table) continue;
    if (rules.kind == FusionKind::kRrf) {
      room[n++] = list_sizes[arm] > 0 ? rrf_term(rules.weights[arm], rules.rank_constant, 1) : 0.0;
    } else {
      room[n++] = rules.weights[arm] * rules.scales[arm].best();
    }
  }
  std::span<double> const found = room.first(n);
  return rules.kind == FusionKind::kMax ? largest(found, true) : sum_largest_first(found);
}

// most: the largest best_of_table(); of kNone the best document's score.
HYRECALL_HD inline double normalized_score(double score, double most) {
  if (!(most > 0.0)) return 0.0;
  double const share = score / most;
  return share < 0.0 ? 0.0 : 1.0 < share ? 1.0 : share;
}

// ---- the balance of lexical and dense arms: what tells candidates apart counts, and an arm whose
// candidates all score near its best does not tell them apart.

struct ArmKind {
  double weight = 0.0;  // of its arms that scored something
  double mean = 0.0;    // of what their scores are worth, an arm as its weight
};

// Makes the weights of a kind's arms shares of 1. means: mean_worth() of every arm that scored
// something.
HYRECALL_HD inline ArmKind share_weights(std::span<std::uint32_t const> arms,
                                         std::span<ArmScale const> scales,
                                         std::span<double const> means, std::span<double> weights) {
  ArmKind out;
  HYRECALL_ROLLED
  for (std::uint32_t arm : arms)
    if (scales[arm].range.any) out.weight = out.weight + weights[arm];
  HYRECALL_ROLLED
  for (std::uint32_t arm : arms) {
    weights[arm] = out.weight > 0.0 ? weights[arm] / out.weight : 0.0;
    if (scales[arm].range.any) out.mean = out.mean + weights[arm] * means[arm];
  }
  return out;
}

// How much the dense arms weigh; the lexical ones have the rest. A kind that scored nothing leaves
// all to the other.
HYRECALL_HD inline double share_of_dense(double balance, ArmKind const& lexical,
                                         ArmKind const& dense) {
  if (dense.weight == 0.0) return 0.0;
  if (lexical.weight == 0.0) return 1.0;
  return dense_share(balance, lexical.mean, dense.mean);
}

HYRECALL_HD inline void balance_weights(double balance, std::span<std::uint32_t const> lexical_arms,
                                        std::span<std::uint32_t const> dense_arms,
                                        std::span<ArmScale const> scales,
                                        std::span<double const> means, std::span<double> weights) {
  ArmKind const lexical = share_weights(lexical_arms, scales, means, weights);
  ArmKind const dense = share_weights(dense_arms, scales, means, weights);
  double const share = share_of_dense(balance, lexical, dense);
  HYRECALL_ROLLED
  for (std::uint32_t arm : lexical_arms) weights[arm] = weights[arm] * (1.0 - share);
  HYRECALL_ROLLED
  for (std::uint32_t arm : dense_arms) weights[arm] = weights[arm] * share;
}

}  // namespace hyrecall
