// Every formula that makes a score, each once, for host and device. docs/scoring.md lists them with
// their sources. The bits are part of the interface: built without contraction and fast-math, no
// libm, no CUDA transcendental.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#if defined(__CUDACC__)
#define HYRECALL_HD __host__ __device__
#else
#define HYRECALL_HD
#endif

// Before a loop of a few rounds with divisions: unrolled on a device, it would be some kilobytes of
// code. The host's compiler does not know the pragma.
#if defined(__CUDA_ARCH__)
#define HYRECALL_ROLLED _Pragma("unroll 1")
#else
#define HYRECALL_ROLLED
#endif

namespace hyrecall {

// ---- elementary
// -----------------------------------------------------------------------------------------------

// Natural logarithm of a normal positive double; 0 at 1 and e * ln 2 at 2^e. With m in [sqrt(1/2),
// sqrt 2) and s = (m - 1) / (m + 1), ln m = 2 atanh s = 2 (s + s^3/3 + s^5/5 + ...); |s| < 0.172,
// so eleven terms pass 2^-56.
HYRECALL_HD inline double natural_log(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    exponent += 1;
  }
  double const f = m - 1.0;
  double const s = f / (2.0 + f);
  double const z = s * s;
  double tail = 0.0;
  for (int k = 11; k >= 1; --k) tail = z * (2.0 / (2 * k + 1) + tail);
  // 2s = f - s f keeps the leading term exact. ln 2 is split so that exponent * high is exact.
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  double const e = exponent;
  return e * kLn2High + (f - (s * (f - tail) - e * kLn2Low));
}

// ---- cosine
// ---------------------------------------------------------------------------------------------------

inline constexpr int kLanes = 32;  // element i of a row goes to lane i mod 32

// Adds the lanes pairwise by 16, 8, 4, 2, 1. T is float for dots, double for sums of squares.
template <typename T>
HYRECALL_HD inline T fold_lanes(T* lanes) {
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = lanes[j] + lanes[j + width];
  }
  return lanes[0];
}

// Outside, float32 products of a cosine could lose their meaning.
inline constexpr double kMinNorm = 0x1p-60;
inline constexpr double kMaxNorm = 0x1p60;

// Euclidean norm in float64: 32 lanes as the dot. Squares of float32 are exact in float64; a square
// root is rounded correctly everywhere. element(i) is a double.
template <typename Element>
HYRECALL_HD inline double row_norm(std::size_t dim, Element&& element) {
  double lanes[kLanes] = {};
  for (std::size_t first = 0; first < dim; first += kLanes) {
    std::size_t const n = dim - first < kLanes ? dim - first : kLanes;
    for (std::size_t lane = 0; lane < n; ++lane) {
      double const x = element(first + lane);
      lanes[lane] = lanes[lane] + x * x;
    }
  }
  return sqrt(fold_lanes(lanes));
}

// float32 of 1 / norm; 0 for a zero row, which counts as missing.
HYRECALL_HD inline float inverse_norm(double norm) {
  return norm == 0.0 ? 0.0f : static_cast<float>(1.0 / norm);
}

// Cosine of a row and a query from their canonical dot and inverse norms, in [-1, 1]; never -0.
HYRECALL_HD inline float cosine(float dot, float inverse_row_norm, float inverse_query_norm) {
  float const by_row = dot * inverse_row_norm;
  float const value = by_row * inverse_query_norm;
  if (value > 1.0f) return 1.0f;
  if (value < -1.0f) return -1.0f;
  return value + 0.0f;  // -0 + 0 is +0
}

// The score of a document of many vectors: the sum of the greatest cosine of each of the query's
// vectors, in their order, rounded once.
HYRECALL_HD inline double max_sim_sum(double sum, float greatest) {
  return sum + static_cast<double>(greatest);
}
HYRECALL_HD inline float max_sim_score(double sum) {
  return static_cast<float>(sum) + 0.0f;  // -0 + 0 is +0
}
HYRECALL_HD inline float max_sim(float const* greatest, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum = max_sim_sum(sum, greatest[i]);
  return max_sim_score(sum);
}

// The sum so far of the products of a sparse vector's weights with those of the query, in the order
// of the terms' bytes; rounded to float32 it is the score. A product of two float32 is exact.
HYRECALL_HD inline double sparse_sum(double sum, float query, float row) {
  return sum + static_cast<double>(query) * static_cast<double>(row);
}

// ---- BM25
// -----------------------------------------------------------------------------------------------------

// Names after kFts5 as in Kamphuis, de Vries, Boytsov, Lin, "Which BM25 do you mean?", ECIR 2020;
// kPlus is BM25+, kLong is BM25L.
enum class Bm25Variant : std::uint8_t { kOkapi, kLucene, kFts5, kRobertson, kAtire, kPlus, kLong };

struct Bm25 {
  Bm25Variant variant;
  double k1;           // >= 0, saturation of term frequency
  double b = 0.0;      // in [0, 1], weight of document length, where lengths in scope are alike
  double delta = 0.0;  // >= 0, what kPlus and kLong grant every occurrence; others have none
  double b_mixed = b;  // in [0, 1], the same where long and short documents are mixed
};

// Robertson, Walker et al., TREC-3 (1994), which is negative for a term that most documents hold;
// the "+ 1" that keeps it positive is Lucene's. SQLite FTS5 has none and floors non-positive values
// at 1e-6. A term that no document holds is worth 0 where the formula would divide by 0.
HYRECALL_HD inline double bm25_idf(Bm25Variant variant, std::int64_t n_docs,
                                   std::int64_t doc_freq) {
  double const n = static_cast<double>(n_docs);
  double const df = static_cast<double>(doc_freq);
  if (variant == Bm25Variant::kAtire) return doc_freq == 0 ? 0.0 : natural_log(n / df);
  if (variant == Bm25Variant::kPlus) return doc_freq == 0 ? 0.0 : natural_log((n + 1.0) / df);
  if (variant == Bm25Variant::kLong) return natural_log((n + 1.0) / (df + 0.5));
  double const odds =
      (static_cast<double>(n_docs - doc_freq) + 0.5) / (static_cast<double>(doc_freq) + 0.5);
  if (variant == Bm25Variant::kFts5) {
    double const idf = natural_log(odds);
    return idf > 0.0 ? idf : 1e-6;
  }
  if (variant == Bm25Variant::kRobertson) return natural_log(odds);
  return natural_log(1.0 + odds);
}

// Mean length of the scope's documents; 0 counts as 1 so that documents without tokens divide by
// nothing.
HYRECALL_HD inline double mean_doc_length(std::int64_t n_docs, std::int64_t total_length) {
  if (n_docs == 0 || total_length == 0) return 1.0;
  return static_cast<double>(total_length) / static_cast<double>(n_docs);
}

// The weight of a term in this query. `multiplicity` is boost x query term frequency, summed over
// the query.
HYRECALL_HD inline float bm25_weight(Bm25 const& p, double idf, double multiplicity) {
  double weight = idf * multiplicity;
  bool const has_factor = p.variant != Bm25Variant::kLucene && p.variant != Bm25Variant::kRobertson;
  if (has_factor) weight = weight * (p.k1 + 1.0);
  return static_cast<float>(weight);
}

// BM25+: what a term adds to every document that holds it, however long.
HYRECALL_HD inline float bm25_shift(Bm25 const& p, double idf, double multiplicity) {
  if (p.variant != Bm25Variant::kPlus) return 0.0f;
  double const worth = idf * multiplicity;
  return static_cast<float>(worth * p.delta);
}

// How much the rows' lengths count, in [0, 1]: 1 if they are alike, 0 if long and short rows are
// mixed. With spread = the variance of the lengths over the square of their mean: 1 up to a spread
// of 1/2, 0 from 3/4 on.
HYRECALL_HD inline double length_share(std::int64_t n_docs, std::int64_t total_length,
                                       std::int64_t squared_length) {
  if (total_length <= 0) return 0.0;
  double const total = static_cast<double>(total_length);
  double const spread =
      (static_cast<double>(n_docs) * static_cast<double>(squared_length)) / (total * total) - 1.0;
  double const share = (0.75 - spread) * 4.0;
  return share < 0.0 ? 0.0 : 1.0 < share ? 1.0 : share;
}

// b in a scope with these lengths: exact where both ends are equal.
HYRECALL_HD inline double bm25_b(Bm25 const& p, double length_share) {
  return p.b_mixed + length_share * (p.b - p.b_mixed);
}

// The values that normalise document lengths in a scope: their mean, and bm25_b().
struct LengthScale {
  double mean;
  double b;
};

// c(doc_length): what a document's length adds to the denominator. BM25L divides term_freq by it
// and has k1 elsewhere.
HYRECALL_HD inline float bm25_length_norm(Bm25 const& p, std::uint32_t doc_length,
                                          LengthScale scale) {
  double const relative = scale.b * static_cast<double>(doc_length) / scale.mean;
  double const factor = (1.0 - scale.b) + relative;
  return static_cast<float>(p.variant == Bm25Variant::kLong ? factor : p.k1 * factor);
}

// What one term adds to one document: with a weight >= 0 it rises with term_freq, falls with
// length_norm and is never negative.
HYRECALL_HD inline float bm25_impact(float weight, float term_freq, float length_norm) {
  return (weight * term_freq) / (term_freq + length_norm);
}

// BM25+ (Lv and Zhai, CIKM 2011): no document that holds a term scores below its shift.
HYRECALL_HD inline float bm25_plus_impact(float weight, float shift, float term_freq,
                                          float length_norm) {
  return bm25_impact(weight, term_freq, length_norm) + shift;
}

// BM25L (Lv and Zhai, SIGIR 2011): long documents saturate later. In [0, 1]; dividing before it is
// weighted keeps every step finite.
HYRECALL_HD inline float bm25_long_saturation(float term_freq, float length_norm, float k1,
                                              float delta) {
  float const raised = term_freq / length_norm + delta;
  return raised / (k1 + raised);
}

HYRECALL_HD inline float bm25_long_impact(float weight, float term_freq, float length_norm,
                                          float k1, float delta) {
  return weight * bm25_long_saturation(term_freq, length_norm, k1, delta);
}

// Factor by which a bound is raised, so that rounding cannot lift another row's impact above it.
inline constexpr float kBoundSlack = 1.0f + 0x1p-20f;

// ---- fusion
// ---------------------------------------------------------------------------------------------------

// Reciprocal rank fusion, one arm's contribution. Cormack, Clarke, Buettcher, SIGIR 2009. rank
// starts at 1.
HYRECALL_HD inline double rrf_term(double weight, double rank_constant, std::int32_t rank) {
  return weight / (rank_constant + static_cast<double>(rank));
}

// Min-max scaling into [0, 1]; a pool whose scores are all equal scales to 1.
HYRECALL_HD inline double minmax_scale(double score, double low, double high) {
  return high == low ? 1.0 : (score - low) / (high - low);
}

// How much the dense arms of a balanced sum weigh, in [0, 1]; the lexical ones have the rest. The
// means are those of the scaled scores over the pool.
HYRECALL_HD inline double dense_share(double balance, double mean_lexical, double mean_dense) {
  double const share = (balance + mean_lexical) - mean_dense;
  return share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
}

// Share of the pool's best score, in [0, 1]; 0 where that is not above 0.
HYRECALL_HD inline double best_scale(double score, double high) {
  if (!(high > 0.0)) return 0.0;
  return score > 0.0 ? score / high : 0.0;
}

// A cosine as a relevance in [0, 1]: its positive part.
HYRECALL_HD inline double clip_scale(double score) {
  return score < 0.0 ? 0.0 : score > 1.0 ? 1.0 : score;
}

// A cosine moved into [0, 1].
HYRECALL_HD inline double unit_scale(double score) {
  return (1.0 + score) / 2.0;
}

struct Moments {
  double mean;
  double deviation;  // of the population, not of a sample
};

// Mean and standard deviation in two passes, in the order given; n >= 1. Equal float32 values have
// their own value as mean (their sum is exact), so their deviation is exactly 0. Value is double,
// or float, which a double holds.
template <typename Value>
HYRECALL_HD inline Moments moments(Value const* values, std::size_t n) {
  double sum = 0.0;
  HYRECALL_ROLLED
  for (std::size_t i = 0; i < n; ++i) sum = sum + static_cast<double>(values[i]);
  double const mean = sum / static_cast<double>(n);
  double squares = 0.0;
  HYRECALL_ROLLED
  for (std::size_t i = 0; i < n; ++i) {
    double const off = static_cast<double>(values[i]) - mean;
    squares = squares + off * off;
  }
  return {mean, std::sqrt(squares / static_cast<double>(n))};
}

// Distribution-based scaling: three standard deviations below the mean are 0, three above are 1,
// and scores farther out are not clipped. A pool whose scores are all equal scales to 1. Mazzeschi,
// "Distribution-Based Score Fusion", 2023.
HYRECALL_HD inline double dbsf_scale(double score, Moments const& pool) {
  if (pool.deviation == 0.0) return 1.0;
  return (score - (pool.mean - 3.0 * pool.deviation)) / (6.0 * pool.deviation);
}

// ---- shaping
// --------------------------------------------------------------------------------------------------

// 2^x for x <= 0; exact at integers, 0 from -1074.5 on. x = n + r with |r| <= 1/2, and 2^r =
// e^(r ln 2) = 1 + y (1 + y/2 (1 + y/3 (...))); |y| < 0.347, so thirteen terms pass 2^-56.
HYRECALL_HD inline double exp2_negative(double x) {
  if (!(x > -1074.5)) return 0.0;
  int const n = static_cast<int>(x - 0.5);  // to nearest: the cast cuts towards 0
  double const y = (x - static_cast<double>(n)) * 6.93147180559945286e-01;
  double power = 1.0;
  for (int k = 13; k >= 1; --k) power = 1.0 + (y * power) / k;
  // Two factors: 2^-1074 is no normal number.
  int const half = n / 2;
  for (int e : {half, n - half}) {
    std::uint64_t const bits = static_cast<std::uint64_t>(e + 1023) << 52;
    double scale;
    std::memcpy(&scale, &bits, sizeof scale);
    power = power * scale;
  }
  return power;
}

// The factor by which age reduces a score: 1 at age 0 and in the future, 1/2 at the half-life.
HYRECALL_HD inline double recency_factor(double age, double half_life, double exponent) {
  if (!(age > 0.0)) return 1.0;  // a missing time (NaN) too
  return exp2_negative(-(exponent * (age / half_life)));
}

// A weighted mean of three signals; 0 where no weight is above 0. Park et al., "Generative agents",
// UIST 2023.
HYRECALL_HD inline double composite_sum(double recency_weight, double recency,
                                        double importance_weight, double importance,
                                        double relevance_weight, double relevance) {
  return (recency_weight * recency + importance_weight * importance) + relevance_weight * relevance;
}
HYRECALL_HD inline double composite_mean(double sum, double total_weight) {
  return total_weight > 0.0 ? sum / total_weight : 0.0;
}

// Maximal marginal relevance. Carbonell and Goldstein, SIGIR 1998. similarity: the largest to what
// is chosen already.
HYRECALL_HD inline double mmr_value(double relevance_weight, double relevance, double similarity) {
  return relevance_weight * relevance - (1.0 - relevance_weight) * similarity;
}

// ---- a second look
// --------------------------------------------------------------------------------------------------

// One value of a query vector that the best rows have moved. Rocchio, "Relevance feedback in
// information retrieval", 1971. rows: the sum of this value over the unit rows, best row first.
HYRECALL_HD inline float rocchio_value(float query, float inverse_query_norm, double rows,
                                       double n_rows, double weight) {
  double const own = static_cast<double>(query) * static_cast<double>(inverse_query_norm);
  return static_cast<float>(own + weight * (rows / n_rows));
}
// The same value of a unit row, as it is added up.
HYRECALL_HD inline double unit_row_value(float value, float inverse_norm) {
  return static_cast<double>(value) * static_cast<double>(inverse_norm);
}

// A term's share of the tokens of one row that holds it.
HYRECALL_HD inline double term_share(std::uint32_t term_freq, std::uint32_t doc_length) {
  return static_cast<double>(term_freq) / static_cast<double>(doc_length);
}
// The weight of a term of the best rows for the query: its part in the relevance model of the rows
// (Lavrenko and Croft, SIGIR 2001), times its idf in the scope. shares: summed, best row first.
HYRECALL_HD inline double term_worth(double shares, double n_rows, double idf) {
  return (shares / n_rows) * idf;
}
// The boost of a chosen term; those of all chosen terms are `weight` times the query's own terms
// together. total: the worths of the chosen, summed largest first.
HYRECALL_HD inline double added_boost(double weight, double n_own, double worth, double total) {
  return (weight * n_own) * (worth / total);
}

// ---- evidence
// --------------------------------------------------------------------------------------------------

// The value of a row's length, in [0, 1]: ln(1 + tokens) / 5, at most 1 (from 147 tokens on).
HYRECALL_HD inline double length_worth(std::uint32_t tokens) {
  double const worth = natural_log(1.0 + static_cast<double>(tokens)) / 5.0;
  return 1.0 < worth ? 1.0 : worth;
}

// ---- listed arms
// -----------------------------------------------------------------------------------------------

// The score of place n (from 1) in an ordering, if only the order is known, in (0, 1].
HYRECALL_HD inline double place_score(std::int64_t place) {
  return 1.0 / static_cast<double>(place);
}

// The score of documents with tags that the query names, in [0.5, 0.9]: it rises with the number of
// documents of the largest of these tags, up to four.
HYRECALL_HD inline double tag_relevance(std::int64_t most_documents) {
  double const w = static_cast<double>(most_documents);
  double const share = w / (w > 5.0 ? w : 5.0);
  double const value = 0.5 + 0.5 * share;
  return value < 0.9 ? value : 0.9;
}

// A score after some hops in a graph; each hop halves it.
HYRECALL_HD inline double hop_decay(double score, int hops) {
  for (int hop = 0; hop < hops; ++hop) score = score * 0.5;
  return score;
}

}  // namespace hyrecall
