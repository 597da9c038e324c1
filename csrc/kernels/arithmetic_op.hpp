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
  kMeanDocLength,    // n_docs, total_length
  kWeightSaturated,  // k1, idf, multiplicity; of the variants with the factor k1 + 1
  kWeightLucene,     // k1, idf, multiplicity
  kLengthNorm,       // k1, b, doc_length, mean
  kImpact,           // weight, term_freq, length_norm
  kRrfTerm,          // weight, rank_constant, rank
  kMinmaxScale,      // score, low, high
};

inline constexpr int kArithmeticOps = 12;
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
    case ArithmeticOp::kMeanDocLength:
      return mean_doc_length(integer(0), integer(1));
    case ArithmeticOp::kWeightSaturated:
      return bm25_weight({Bm25Variant::kOkapi, x[0], 0.0}, x[1], x[2]);
    case ArithmeticOp::kWeightLucene:
      return bm25_weight({Bm25Variant::kLucene, x[0], 0.0}, x[1], x[2]);
    case ArithmeticOp::kLengthNorm:
      return bm25_length_norm({Bm25Variant::kLucene, x[0], x[1]}, static_cast<std::uint32_t>(x[2]),
                              x[3]);
    case ArithmeticOp::kImpact:
      return bm25_impact(single(0), single(1), single(2));
    case ArithmeticOp::kRrfTerm:
      return rrf_term(x[0], x[1], static_cast<std::int32_t>(x[2]));
    case ArithmeticOp::kMinmaxScale:
      return minmax_scale(x[0], x[1], x[2]);
  }
  return 0.0;
}

}  // namespace hyrecall
