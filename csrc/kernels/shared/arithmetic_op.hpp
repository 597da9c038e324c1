// A formula of core/formulas.hpp by name, on numbers: how the golden table is evaluated on every
// backend. Arguments and results are float64; a formula that takes or gives float32 or integers
// finds them exact in it.
#pragma once

#include "core/formulas.hpp"
#include "core/fusion_math.hpp"
#include "core/shaping_math.hpp"

namespace hyrecall {

enum class ArithmeticOp : std::int32_t {
  kLog,              // x
  kCosine,           // dot, inverse_row_norm, inverse_query_norm
  kIdfOkapi,         // n_docs, doc_freq
  kIdfLucene,        // n_docs, doc_freq
  kIdfFts5,          // n_docs, doc_freq
  kIdfRobertson,     // n_docs, doc_freq
  kIdfAtire,         // n_docs, doc_freq
  kIdfPlus,          // n_docs, doc_freq
  kIdfLong,          // n_docs, doc_freq
  kMeanDocLength,    // n_docs, total_length
  kWeightSaturated,  // k1, idf, multiplicity; of the variants with the factor k1 + 1
  kWeightPlain,      // k1, idf, multiplicity; of those without
  kShift,            // delta, idf, multiplicity
  kLengthNorm,       // k1, b, doc_length, mean
  kLengthNormLong,   // b, doc_length, mean
  kImpact,           // weight, term_freq, length_norm
  kPlusImpact,       // weight, shift, term_freq, length_norm
  kLongSaturation,   // term_freq, length_norm, k1, delta
  kRrfTerm,          // weight, rank_constant, rank
  kMinmaxScale,      // score, low, high
  kDbsfScale,        // score, mean, deviation
  kLongImpact,       // weight, term_freq, length_norm, k1, delta
  kBestScale,        // score, high
  kClipScale,        // score
  kUnitScale,        // score
  kDenseShare,       // balance, mean_lexical, mean_dense
  kMean,             // n, then n values, at most kMaxArity - 1
  kDeviation,        // n, then n values, at most kMaxArity - 1
  kExp2,             // x
  kRecencyFactor,    // age, half_life, exponent
  kCompositeSum,     // weight and signal: recency, importance, relevance
  kCompositeMean,    // sum, total_weight
  kMmrValue,         // relevance_weight, relevance, similarity
  kPlaceScore,       // place
  kTagRelevance,     // most_documents
  kHopDecay,         // score, hops
  kLengthShare,      // n_docs, total_length, squared_length
  kLengthWorth,      // tokens
  kRocchioValue,     // query, inverse_query_norm, rows, n_rows, weight
  kUnitRowValue,     // value, inverse_norm
  kTermShare,        // term_freq, doc_length
  kTermWorth,        // shares, n_rows, idf
  kAddedBoost,       // weight, n_own, worth, total
  kBm25B,            // b, b_mixed, length_share
  // Kinds and scales are the numbers of their enumerations in core/fusion_math.hpp and
  // core/shaping_math.hpp.
  kArmWorth,           // scale, score, low, high, mean, deviation
  kMeanWorth,          // scale, its two numbers, then three scores
  kSumLargestFirst,    // n, then n values, at most kMaxArity - 1
  kLargest,            // is_whole, n, then n values, at most kMaxArity - 2
  kFusedScore,         // kind, rank_constant, then weight and score (rank where RRF) of two arms
  kBestOfTable,        // kind, rank_constant, then weight and best (list size) of two arms
  kShareOfDense,       // balance, weight and mean of the lexical kind, of the dense kind
  kBalancedWeight,     // balance, mean of a lexical arm, of a dense arm, their weights: the dense
  kNormalizedScore,    // score, most
  kRelevance,          // scale, score, low, high
  kIsDuplicate,        // cosine, is_unit, threshold
  kNearestSimilarity,  // two cosines to what is chosen, in its order
  kNearestEntry,       // the same
  kIsChosenBefore,     // value, place, other value, other place
  kRecencyScore,       // score, age, half_life, exponent
  kWeightScore,        // score, weight
  kCompositeRaw,       // half-life 1, weights 1, 0.5, 0.25: score, age, importance
  kCompositeScore,     // the same
};

struct NamedOp {
  char const* name;  // in tests/golden/arithmetic.csv
  ArithmeticOp op;
};
inline constexpr NamedOp kArithmeticOps[] = {
    {"log", ArithmeticOp::kLog},
    {"cosine", ArithmeticOp::kCosine},
    {"idf_okapi", ArithmeticOp::kIdfOkapi},
    {"idf_lucene", ArithmeticOp::kIdfLucene},
    {"idf_fts5", ArithmeticOp::kIdfFts5},
    {"idf_robertson", ArithmeticOp::kIdfRobertson},
    {"idf_atire", ArithmeticOp::kIdfAtire},
    {"idf_bm25+", ArithmeticOp::kIdfPlus},
    {"idf_bm25l", ArithmeticOp::kIdfLong},
    {"mean_doc_length", ArithmeticOp::kMeanDocLength},
    {"weight_saturated", ArithmeticOp::kWeightSaturated},
    {"weight_plain", ArithmeticOp::kWeightPlain},
    {"shift", ArithmeticOp::kShift},
    {"length_norm", ArithmeticOp::kLengthNorm},
    {"length_norm_bm25l", ArithmeticOp::kLengthNormLong},
    {"impact", ArithmeticOp::kImpact},
    {"plus_impact", ArithmeticOp::kPlusImpact},
    {"long_saturation", ArithmeticOp::kLongSaturation},
    {"rrf_term", ArithmeticOp::kRrfTerm},
    {"minmax_scale", ArithmeticOp::kMinmaxScale},
    {"dbsf_scale", ArithmeticOp::kDbsfScale},
    {"long_impact", ArithmeticOp::kLongImpact},
    {"best_scale", ArithmeticOp::kBestScale},
    {"clip_scale", ArithmeticOp::kClipScale},
    {"unit_scale", ArithmeticOp::kUnitScale},
    {"dense_share", ArithmeticOp::kDenseShare},
    {"mean", ArithmeticOp::kMean},
    {"deviation", ArithmeticOp::kDeviation},
    {"exp2", ArithmeticOp::kExp2},
    {"recency_factor", ArithmeticOp::kRecencyFactor},
    {"composite_sum", ArithmeticOp::kCompositeSum},
    {"composite_mean", ArithmeticOp::kCompositeMean},
    {"mmr_value", ArithmeticOp::kMmrValue},
    {"place_score", ArithmeticOp::kPlaceScore},
    {"tag_relevance", ArithmeticOp::kTagRelevance},
    {"hop_decay", ArithmeticOp::kHopDecay},
    {"length_share", ArithmeticOp::kLengthShare},
    {"length_worth", ArithmeticOp::kLengthWorth},
    {"rocchio_value", ArithmeticOp::kRocchioValue},
    {"unit_row_value", ArithmeticOp::kUnitRowValue},
    {"term_share", ArithmeticOp::kTermShare},
    {"term_worth", ArithmeticOp::kTermWorth},
    {"added_boost", ArithmeticOp::kAddedBoost},
    {"bm25_b", ArithmeticOp::kBm25B},
    {"arm_worth", ArithmeticOp::kArmWorth},
    {"mean_worth", ArithmeticOp::kMeanWorth},
    {"sum_largest_first", ArithmeticOp::kSumLargestFirst},
    {"largest", ArithmeticOp::kLargest},
    {"fused_score", ArithmeticOp::kFusedScore},
    {"best_of_table", ArithmeticOp::kBestOfTable},
    {"share_of_dense", ArithmeticOp::kShareOfDense},
    {"balanced_weight", ArithmeticOp::kBalancedWeight},
    {"normalized_score", ArithmeticOp::kNormalizedScore},
    {"relevance", ArithmeticOp::kRelevance},
    {"is_duplicate", ArithmeticOp::kIsDuplicate},
    {"nearest_similarity", ArithmeticOp::kNearestSimilarity},
    {"nearest_entry", ArithmeticOp::kNearestEntry},
    {"is_chosen_before", ArithmeticOp::kIsChosenBefore},
    {"recency_score", ArithmeticOp::kRecencyScore},
    {"weight_score", ArithmeticOp::kWeightScore},
    {"composite_raw", ArithmeticOp::kCompositeRaw},
    {"composite_score", ArithmeticOp::kCompositeScore},
};
inline constexpr int kMaxArity = 6;

// How many of the arguments after it a formula over several numbers takes.
HYRECALL_HD inline std::size_t count_of(double n, double most = kMaxArity - 1) {
  return n >= 1.0 ? static_cast<std::size_t>(n < most ? n : most) : 1;
}

HYRECALL_HD inline FusionScale scale_of_number(double number) {
  return static_cast<FusionScale>(static_cast<std::uint8_t>(number));
}

// Fusion of two arms whose scores are worth themselves. x: see kFusedScore.
struct TwoArms {
  double weights[2];
  float scores[2];
  std::int32_t ranks[2];
  std::uint32_t list_sizes[2];
  ArmScale scales[2];
  double room[2] = {};
  FusionRules rules;

  HYRECALL_HD explicit TwoArms(double const* x) {
    rules.kind = static_cast<FusionKind>(static_cast<std::uint8_t>(x[0]));
    rules.n_arms_a_doc = 2;
    rules.rank_constant = x[1];
    bool const is_rrf = rules.kind == FusionKind::kRrf;
    for (int arm = 0; arm < 2; ++arm) {
      double const given = x[3 + 2 * arm];
      weights[arm] = x[2 + 2 * arm];
      scores[arm] = is_rrf ? kNoScore : static_cast<float>(given);
      ranks[arm] = is_rrf ? static_cast<std::int32_t>(given) : 0;
      list_sizes[arm] = is_rrf ? static_cast<std::uint32_t>(given) : 0;
      scales[arm].range.add(given);
    }
    rules.weights = weights;
    rules.scales = scales;
  }
  HYRECALL_HD double score() { return fused_score(rules, scores, ranks, room); }
  HYRECALL_HD double best() {
    std::uint32_t const tables[2] = {kNone32, 0};
    return best_of_table(rules, 0, tables, list_sizes, room);
  }
};

// The weight of one dense arm beside one lexical arm. x: see kBalancedWeight.
HYRECALL_HD inline double balanced_weight(double const* x) {
  std::uint32_t const arms[2] = {0, 1};
  double const means[2] = {x[1], x[2]};
  double weights[2] = {x[3], x[4]};
  ArmScale scales[2];
  for (ArmScale& scale : scales) scale.range.add(0.0);
  balance_weights(x[0], std::span(arms).first(1), std::span(arms).last(1), scales, means, weights);
  return weights[1];
}

HYRECALL_HD inline NearestChosen nearest_of(double const* cosines) {
  NearestChosen out;
  for (int i = 0; i < 2; ++i) out.add(static_cast<float>(cosines[i]), i);
  return out;
}

// A score beside an age and an importance. x: see kCompositeRaw.
HYRECALL_HD inline double composite_of(double const* x) {
  return composite_sum(1.0, recency_factor(x[1], 1.0, 1.0), 0.5, x[2], 0.25, x[0]);
}

HYRECALL_HD inline double evaluate(ArithmeticOp op, double const* x) {
  auto const integer = [x](int i) { return static_cast<std::int64_t>(x[i]); };
  auto const single = [x](int i) { return static_cast<float>(x[i]); };
  switch (op) {
    case ArithmeticOp::kLog:
      return natural_log(x[0]);
    case ArithmeticOp::kCosine:
      return cosine(single(0), single(1), single(2));
    case ArithmeticOp::kIdfOkapi:
      return bm25_idf(Bm25Variant::kOkapi, integer(0), integer(1));
    case ArithmeticOp::kIdfLucene:
      return bm25_idf(Bm25Variant::kLucene, integer(0), integer(1));
    case ArithmeticOp::kIdfFts5:
      return bm25_idf(Bm25Variant::kFts5, integer(0), integer(1));
    case ArithmeticOp::kIdfRobertson:
      return bm25_idf(Bm25Variant::kRobertson, integer(0), integer(1));
    case ArithmeticOp::kIdfAtire:
      return bm25_idf(Bm25Variant::kAtire, integer(0), integer(1));
    case ArithmeticOp::kIdfPlus:
      return bm25_idf(Bm25Variant::kPlus, integer(0), integer(1));
    case ArithmeticOp::kIdfLong:
      return bm25_idf(Bm25Variant::kLong, integer(0), integer(1));
    case ArithmeticOp::kMeanDocLength:
      return mean_doc_length(integer(0), integer(1));
    case ArithmeticOp::kWeightSaturated:
      return bm25_weight({Bm25Variant::kOkapi, x[0], 0.0}, x[1], x[2]);
    case ArithmeticOp::kWeightPlain:
      return bm25_weight({Bm25Variant::kLucene, x[0], 0.0}, x[1], x[2]);
    case ArithmeticOp::kShift:
      return bm25_shift({Bm25Variant::kPlus, 0.0, 0.0, x[0]}, x[1], x[2]);
    case ArithmeticOp::kLengthNorm:
      return bm25_length_norm({Bm25Variant::kLucene, x[0], x[1]}, static_cast<std::uint32_t>(x[2]),
                              {x[3], x[1]});
    case ArithmeticOp::kLengthNormLong:
      return bm25_length_norm({Bm25Variant::kLong, 0.0, x[0]}, static_cast<std::uint32_t>(x[1]),
                              {x[2], x[0]});
    case ArithmeticOp::kImpact:
      return bm25_impact(single(0), single(1), single(2));
    case ArithmeticOp::kPlusImpact:
      return bm25_plus_impact(single(0), single(1), single(2), single(3));
    case ArithmeticOp::kLongSaturation:
      return bm25_long_saturation(single(0), single(1), single(2), single(3));
    case ArithmeticOp::kRrfTerm:
      return rrf_term(x[0], x[1], static_cast<std::int32_t>(x[2]));
    case ArithmeticOp::kMinmaxScale:
      return minmax_scale(x[0], x[1], x[2]);
    case ArithmeticOp::kDbsfScale:
      return dbsf_scale(x[0], {x[1], x[2]});
    case ArithmeticOp::kLongImpact:
      return bm25_long_impact(single(0), single(1), single(2), single(3), single(4));
    case ArithmeticOp::kBestScale:
      return best_scale(x[0], x[1]);
    case ArithmeticOp::kClipScale:
      return clip_scale(x[0]);
    case ArithmeticOp::kUnitScale:
      return unit_scale(x[0]);
    case ArithmeticOp::kDenseShare:
      return dense_share(x[0], x[1], x[2]);
    case ArithmeticOp::kMean:
      return moments(x + 1, count_of(x[0])).mean;
    case ArithmeticOp::kDeviation:
      return moments(x + 1, count_of(x[0])).deviation;
    case ArithmeticOp::kExp2:
      return exp2_negative(x[0]);
    case ArithmeticOp::kRecencyFactor:
      return recency_factor(x[0], x[1], x[2]);
    case ArithmeticOp::kCompositeSum:
      return composite_sum(x[0], x[1], x[2], x[3], x[4], x[5]);
    case ArithmeticOp::kCompositeMean:
      return composite_mean(x[0], x[1]);
    case ArithmeticOp::kMmrValue:
      return mmr_value(x[0], x[1], x[2]);
    case ArithmeticOp::kPlaceScore:
      return place_score(integer(0));
    case ArithmeticOp::kTagRelevance:
      return tag_relevance(integer(0));
    case ArithmeticOp::kHopDecay:
      return hop_decay(x[0], static_cast<int>(x[1]));
    case ArithmeticOp::kLengthShare:
      return length_share(integer(0), integer(1), integer(2));
    case ArithmeticOp::kBm25B:
      return bm25_b({Bm25Variant::kLucene, 0.0, x[0], 0.0, x[1]}, x[2]);
    case ArithmeticOp::kLengthWorth:
      return length_worth(static_cast<std::uint32_t>(x[0]));
    case ArithmeticOp::kRocchioValue:
      return rocchio_value(single(0), single(1), x[2], x[3], x[4]);
    case ArithmeticOp::kUnitRowValue:
      return unit_row_value(single(0), single(1));
    case ArithmeticOp::kTermShare:
      return term_share(static_cast<std::uint32_t>(x[0]), static_cast<std::uint32_t>(x[1]));
    case ArithmeticOp::kTermWorth:
      return term_worth(x[0], x[1], x[2]);
    case ArithmeticOp::kAddedBoost:
      return added_boost(x[0], x[1], x[2], x[3]);
    case ArithmeticOp::kArmWorth:
      return ArmScale{scale_of_number(x[0]), {x[2], x[3], true}, {x[4], x[5]}}.worth(x[1]);
    case ArithmeticOp::kMeanWorth:
      return mean_worth({scale_of_number(x[0]), {x[1], x[2], true}, {x[1], x[2]}}, x + 3, 3);
    case ArithmeticOp::kSumLargestFirst: {
      double values[kMaxArity - 1];
      std::size_t const n = count_of(x[0]);
      for (std::size_t i = 0; i < n; ++i) values[i] = x[1 + i];
      return sum_largest_first({values, n});
    }
    case ArithmeticOp::kLargest:
      return largest({x + 2, count_of(x[1], kMaxArity - 2)}, x[0] != 0.0);
    case ArithmeticOp::kFusedScore:
      return TwoArms(x).score();
    case ArithmeticOp::kBestOfTable:
      return TwoArms(x).best();
    case ArithmeticOp::kShareOfDense:
      return share_of_dense(x[0], {x[1], x[2]}, {x[3], x[4]});
    case ArithmeticOp::kBalancedWeight:
      return balanced_weight(x);
    case ArithmeticOp::kNormalizedScore:
      return normalized_score(x[0], x[1]);
    case ArithmeticOp::kRelevance:
      return relevance_of(static_cast<RelevanceScale>(static_cast<std::uint8_t>(x[0])), x[1],
                          {x[2], x[3], true});
    case ArithmeticOp::kIsDuplicate:
      return is_duplicate(single(0), x[1] != 0.0, x[2]) ? 1.0 : 0.0;
    case ArithmeticOp::kNearestSimilarity:
      return nearest_of(x).similarity;
    case ArithmeticOp::kNearestEntry:
      return static_cast<double>(nearest_of(x).entry);
    case ArithmeticOp::kIsChosenBefore:
      return is_chosen_before(x[0], static_cast<std::size_t>(x[1]), x[2],
                              static_cast<std::size_t>(x[3]))
                 ? 1.0
                 : 0.0;
    case ArithmeticOp::kRecencyScore:
      return x[0] * recency_factor(x[1], x[2], x[3]);
    case ArithmeticOp::kWeightScore:
      return x[1] * x[0];
    case ArithmeticOp::kCompositeRaw:
      return composite_of(x);
    case ArithmeticOp::kCompositeScore:
      return composite_mean(composite_of(x), (1.0 + 0.5) + 0.25);
  }
  return 0.0;
}

}  // namespace hyrecall
