// What:   BM25 of the rows of document tiles: leaf_impact() of kernels/shared/lexical_job.hpp,
//         summed leaf after leaf in shared memory; rows that match and reach their query's
//         threshold become candidates, known by their scores.
// In/Out: DenseJob with its `lexical` part; a stage of its batch, whose tiles are document
//         tiles and whose panels hold one query. Appends to candidates and counts.
// Launch: prepare_texts: any grid. scan_postings: any grid of kTextThreads; CTA b takes visits b,
//         b + grid, ...; sizeof(Shared) bytes, and a word a row where a text is not positive.
// Cost:   a load of 4 bytes a posting, once a batch from memory; 32 KB of shared memory read and
//         cleared a visit.
// Oracle: scan_tiles of engine/lexical/tile_scan.cpp, bit for bit. Model: docs/kernels/lexical.md.
#include "kernels/cuda/lexical_tile.cuh"

namespace hyrecall::cuda {
namespace lexical {
namespace {

__device__ void take(DenseJob const& job, ImpactTerms const& terms, std::uint32_t number,
                     bool has_words) {
  Shared& shared = shared_part();
  TextVisit& visit = shared.visits[number];
  if (visit.n_spans == 0 && visit.text.n_leaves <= kSpans) return;
  bool const is_compact =
      job.lexical.segments[visit.segment].posting_width == PostingFormat::kCompact;
  if (is_compact && shared.scale != visit.text.scale) {
    sync_block();  // all have seen that it is another
    float const* const norms = job.lexical.norms + std::size_t{visit.text.scale} * kNormLengths;
    for (std::uint32_t i = threadIdx.x; i < kNormLengths; i += kTextThreads)
      shared.norms[i] = norms[i];
    if (threadIdx.x == 0) shared.scale = visit.text.scale;
    sync_block();
  }
  bool const keeps_words = has_words && visit.text.is_positive == 0;
#pragma unroll 1
  for (std::uint32_t first = 0; first < visit.text.n_leaves; first += kSpans) {
    if (first > 0) {
      sync_block();  // all have read what these leaves replace
      if (threadIdx.x < kWarp) {
        std::uint32_t const n =
            look_up(job.lexical, job.n_segments, visit.text, visit.segment,
                    visit.first_row / kDocTileRows, first, shared.spans[number]);
        if (lane_id() == 0) visit.n_spans = n;
      }
      sync_block();
    }
    add_leaves(job, visit, shared.spans[number], first, terms, keeps_words);
  }
  offer(job, visit, keeps_words ? shared_words() : nullptr);
}

}  // namespace
}  // namespace lexical

__global__ void __launch_bounds__(kTextThreads) prepare_texts(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const step = gridDim.x * kTextThreads;
  std::uint32_t const first = blockIdx.x * kTextThreads + threadIdx.x;
  for (std::uint32_t query = first; query < job.batch.n_queries; query += step) {
    job.thresholds[query] = job.floors[query];
    job.guesses[query] = -__builtin_inff();
    job.counts[query] = 0;
    job.overflows[query] = 0;
  }
  list_visits<true>(job, first / kWarp, step / kWarp);
  LexicalJob const& lexical = job.lexical;
  for (std::uint32_t i = first; i < lexical.n_scales * kNormLengths; i += step) {
    lexical.norms[i] =
        bm25_length_norm(lexical.bm25, i % kNormLengths, lexical.scales[i / kNormLengths]);
  }
}

__global__ void __launch_bounds__(kTextThreads, 6)
    scan_postings(DenseJob const* job_at, std::uint32_t stage, std::uint32_t has_words) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const total = stage == 0 ? job.batch.n_first : job.batch.n_rest;
  if (total == 0) return;
  lexical::Shared& shared = lexical::shared_part();
  lexical::ImpactTerms const terms{job.lexical.bm25.variant,
                                   static_cast<float>(job.lexical.bm25.k1),
                                   static_cast<float>(job.lexical.bm25.delta)};
#pragma unroll 1
  for (std::uint32_t load = 0; load < lexical::kLoadsAThread; ++load) {
    shared_clear(&shared.sums[lexical::own_row(4 * load)]);
    if (has_words != 0) shared_clear(&lexical::shared_words()[lexical::own_row(4 * load)]);
  }
  if (threadIdx.x == 0) shared.scale = kNone32;
#pragma unroll 1
  for (std::uint64_t begin = blockIdx.x; begin < total;
       begin += std::uint64_t{lexical::kAhead} * gridDim.x) {
    std::uint32_t const warp = threadIdx.x / kWarp;
    std::uint64_t const own = begin + std::uint64_t{warp} * gridDim.x;
    if (own < total) {
      lexical::plan(job, stage, static_cast<std::uint32_t>(own), shared.visits[warp],
                    shared.spans[warp]);
    } else if (lane_id() == 0) {
      shared.visits[warp].n_spans = 0;  // no visit
      shared.visits[warp].text.n_leaves = 0;
    }
    sync_block();
#pragma unroll 1
    for (std::uint32_t i = 0; i < lexical::kAhead; ++i)
      lexical::take(job, terms, i, has_words != 0);
    sync_block();  // all have read what the next visits replace
  }
}

std::size_t text_bytes(bool has_words) {
  return lexical::kSharedBytes + (has_words ? lexical::kWordBytes : 0);
}

}  // namespace hyrecall::cuda
