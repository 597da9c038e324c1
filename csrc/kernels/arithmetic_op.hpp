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
};

inline constexpr int kArithmeticOps = 21;
inline constexpr int kMaxArity = 4;

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
  }
  return 0.0;
}

}  // namespace hyrecall
