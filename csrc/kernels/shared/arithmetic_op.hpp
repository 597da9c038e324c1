// A formula of core/formulas.hpp by name, on numbers: how the golden table is evaluated on every
// backend. Arguments and results are float64; a formula that takes or gives float32 or integers
// finds them exact in it.
#pragma once

#include "core/formulas.hpp"

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
};
inline constexpr int kMaxArity = 6;

// How many of the arguments after the first a formula over several numbers takes.
HYRECALL_HD inline std::size_t count_of(double n) {
  constexpr double kMost = kMaxArity - 1;
  return n >= 1.0 ? static_cast<std::size_t>(n < kMost ? n : kMost) : 1;
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
                              x[3]);
    case ArithmeticOp::kLengthNormLong:
      return bm25_length_norm({Bm25Variant::kLong, 0.0, x[0]}, static_cast<std::uint32_t>(x[1]),
                              x[2]);
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
  }
  return 0.0;
}

}  // namespace hyrecall
