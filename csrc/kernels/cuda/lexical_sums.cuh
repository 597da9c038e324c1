// What the leaves of a text add to the rows of a document tile.
#pragma once

#include "kernels/cuda/lexical_visit.cuh"

namespace hyrecall::cuda::lexical {

// What a leaf is worth in its query.
struct LeafWorth {
  float weight;
  float shift;
  std::uint32_t bit;  // in words; 0: none are kept
};

// Norms that no table has: of wide postings and of escapes.
__device__ inline float made_norm(DenseJob const& job, TextVisit const& visit,
                                  std::uint32_t length) {
  return bm25_length_norm(job.lexical.bm25, length, job.lexical.scales[visit.text.scale]);
}

__device__ inline void add(ImpactTerms const& terms, LeafWorth const& worth, std::uint32_t row,
                           std::uint32_t term_freq, float norm) {
  float const impact = leaf_impact(terms.variant, terms.k1, terms.delta, worth.weight, worth.shift,
                                   static_cast<float>(term_freq), norm);
  shared_add(&shared_part().sums[row], impact);
  if (worth.bit != 0) shared_or(&shared_words()[row], worth.bit);
}

// Postings 4 x load to + 3 of a leaf.
__device__ inline void add_load(DenseJob const& job, TextVisit const& visit,
                                ImpactTerms const& terms, bool is_compact, LeafSpan const& span,
                                LeafWorth const& worth, std::uint32_t load,
                                FourPostings const& four) {
  PostingFormat const format(is_compact ? PostingFormat::kCompact : PostingFormat::kWide);
#pragma unroll 1
  for (std::uint32_t k = 0; k < kPostingsALoad; ++k) {
    std::uint32_t const at = kPostingsALoad * load + k;
    std::uint32_t const bits =
        k < 2 ? (k == 0 ? four.bits[0] : four.bits[1]) : (k == 2 ? four.bits[2] : four.bits[3]);
    std::uint32_t const freq = format.freq(bits);
    // The host adds 0 for an escape: no sum is -0, since the first addend is +0.
    if (at < span.begin || at >= span.end || freq == format.escape()) continue;
    std::uint32_t const length = format.length(bits);
    float const norm = is_compact ? shared_part().norms[length] : made_norm(job, visit, length);
    add(terms, worth, PostingFormat::row(bits), freq + 1, norm);
  }
}

__device__ inline void add_escapes(DenseJob const& job, TextVisit const& visit,
                                   ImpactTerms const& terms, LeafSpan const& span,
                                   LeafWorth const& worth) {
  std::uint32_t const* const lengths = job.lexical.segments[visit.segment].doc_lengths;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < span.n_escapes; i += kTextThreads) {
    PostingEscape const escape = span.escapes[i];
    float const norm = made_norm(job, visit, lengths[escape.row]);
    add(terms, worth, escape.row - visit.first_row, escape.term_freq, norm);
  }
}

__device__ inline FourPostings load_postings(LeafSpan const& span, std::uint32_t load) {
  return *reinterpret_cast<FourPostings const*>(span.postings + kPostingsALoad * load);
}

// Of a leaf, those that the thread adds first; 0 where there are none.
__device__ inline FourPostings first_postings(LeafSpan const* spans, std::uint32_t leaf,
                                              std::uint32_t n) {
  bool const is_there = leaf < n && kPostingsALoad * threadIdx.x < spans[leaf].end;
  return is_there ? load_postings(spans[leaf], threadIdx.x) : FourPostings{};
}

// Adds the leaves that were looked up. Rows of one leaf are distinct, so that no two threads meet
// between two barriers; leaves come one after another, so that a row's sum has the host's order.
__device__ inline void add_leaves(DenseJob const& job, TextVisit const& visit,
                                  LeafSpan const* spans, std::uint32_t first_leaf,
                                  ImpactTerms const& terms, bool has_words) {
  LexicalJob const& lexical = job.lexical;
  bool const is_compact = lexical.segments[visit.segment].posting_width == PostingFormat::kCompact;
  std::uint32_t const leaf_begin = visit.text.leaf_begin + first_leaf;
  std::uint32_t const n = visit.n_spans;
  // The first postings of the leaves to come are on their way while one is added.
  FourPostings ahead[kLeavesAhead];
#pragma unroll
  for (std::uint32_t i = 0; i < kLeavesAhead; ++i) ahead[i] = first_postings(spans, i, n);
#pragma unroll 1
  for (std::uint32_t i = 0; i < n; ++i) {
    LeafSpan const& span = spans[i];
    std::uint32_t const leaf = leaf_begin + span.leaf;
    LeafWorth const worth{lexical.weights[leaf],
                          lexical.shifts != nullptr ? lexical.shifts[leaf] : 0.0f,
                          has_words ? 1u << span.leaf : 0u};
    FourPostings four = ahead[0];
#pragma unroll
    for (std::uint32_t k = 1; k < kLeavesAhead; ++k) ahead[k - 1] = ahead[k];
    ahead[kLeavesAhead - 1] = first_postings(spans, i + kLeavesAhead, n);
#pragma unroll 1
    for (std::uint32_t load = threadIdx.x; kPostingsALoad * load < span.end;) {
      add_load(job, visit, terms, is_compact, span, worth, load, four);
      load += kTextThreads;
      if (kPostingsALoad * load < span.end) four = load_postings(span, load);
    }
    add_escapes(job, visit, terms, spans[i], worth);
    sync_block();  // before the next leaf meets these rows
  }
}

}  // namespace hyrecall::cuda::lexical
