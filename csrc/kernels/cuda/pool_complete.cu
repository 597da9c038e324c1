// What:   the scores of a pool's documents in the arms whose lists do not hold them.
// In/Out: PoolJob: docs, doc_counts; scores.
// Launch: grid (CTAs a query, queries); a warp takes every n-th document of its query.
// Cost:   of a text some three dependent reads a leaf, a lane each; of a vector its bytes.
// Oracle: score_lexical and score_dense of the engine, bit for bit
//         (tests/native/test_pool_device.cpp).
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/leaf_spans.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {
namespace {

// How often a list holds a row; 0: not at all.
__device__ std::uint32_t freq_of(LexicalJob const& job, LexicalSegment const& segment,
                                 std::uint32_t number, std::uint32_t row) {
  if (number == kNone32) return 0;
  LeafList const list = list_of(job, segment, number);
  std::uint32_t const tile = row / kDocTileRows;
  std::uint32_t const run = run_from(list.runs, list.n_runs, tile);
  if (run == list.n_runs || list.runs[run].tile != tile) return 0;
  std::uint32_t const* const postings = list.postings + list.posting_begin;
  std::uint32_t const end = run + 1 < list.n_runs ? list.runs[run + 1].begin : list.n_postings;
  std::uint32_t const wanted = row % kDocTileRows;
  std::uint32_t const at = find_first(list.runs[run].begin, end, [=](std::uint32_t i) {
    return PostingFormat::row(postings[i]) < wanted;
  });
  if (at == end || PostingFormat::row(postings[at]) != wanted) return 0;
  PostingFormat const format(segment.posting_width);
  std::uint32_t const freq = format.freq(postings[at]);
  if (freq != format.escape()) return freq + 1;
  return list.escapes[escape_from(list.escapes, list.n_escapes, row)].term_freq;
}

// A lane a leaf finds its term frequency; the impacts are added in the query's order. A warp calls
// it.
__device__ float score_text(PoolArm const& arm, std::uint32_t place, PoolAnswer answer,
                            PoolDoc const& doc) {
  LexicalJob const& job = arm.lexical;
  LexicalSegment const& segment = job.segments[doc.segment];
  std::uint32_t const length = segment.doc_lengths[doc.row];
  if (length == kNoText) return kNoScore;
  // What matches is in the list, or nothing does.
  if (answer == PoolAnswer::kWhole || place == kNone32) return 0.0f;
  LexicalText const text = job.texts[place];
  if (text.n_leaves == 0) return 0.0f;
  float const norm = bm25_length_norm(job.bm25, length, job.scales[text.scale]);
  auto const k1 = static_cast<float>(job.bm25.k1);
  auto const delta = static_cast<float>(job.bm25.delta);
  float score = 0.0f;
  std::uint32_t held = 0;  // of a tree, whose leaves are at most 32
#pragma unroll 1
  for (std::uint32_t first = 0; first < text.n_leaves; first += 32) {
    float impact = 0.0f;
    bool is_held = false;
    if (first + lane_id() < text.n_leaves) {
      std::uint32_t const leaf = text.leaf_begin + first + lane_id();
      std::uint32_t const number = job.lists[std::size_t{leaf} * arm.n_segments + doc.segment];
      std::uint32_t const freq = freq_of(job, segment, number, doc.row);
      is_held = freq > 0;
      if (is_held) {
        impact = leaf_impact(job.bm25.variant, k1, delta, job.weights[leaf],
                             job.shifts != nullptr ? job.shifts[leaf] : 0.0f,
                             static_cast<float>(freq), norm);
      }
    }
    std::uint32_t const bits = ballot(is_held);
#pragma unroll 1
    for (std::uint32_t left = bits; left != 0; left &= left - 1)
      score = score + shuffle(impact, lowest_bit(left));
    held |= bits;
  }
  bool const is_tree = text.n_match_steps > 0;
  if (is_tree && !matches_tree(job.match_steps + text.match_begin, text.n_match_steps, held))
    return 0.0f;
  return score;
}

// Lane 0 has it.
__device__ float score_vector(PoolArm const& arm, std::uint32_t place, PoolAnswer answer,
                              PoolDoc const& doc) {
  if (answer == PoolAnswer::kWhole) return kNoScore;  // what has a vector is listed
  DenseSegment const& segment = arm.segments[doc.segment];
  float const inverse_norm = segment.inverse_norms[doc.row];
  if (inverse_norm == 0.0f) return kNoScore;
  float const dot = dot_by_warp(
      arm.dim, arm.queries + std::size_t{place} * arm.dim,
      [&](std::uint32_t i) { return row_value(segment.rows, arm.row_type, arm.dim, doc.row, i); });
  float const score = cosine(dot, inverse_norm, arm.inverse_query_norms[place]);
  return score == score ? score : -1.0f;  // a forged vector has no order, as on the host
}

}  // namespace

__global__ void __launch_bounds__(kPoolThreads, 8) complete_pools(PoolJob const* job_at) {
  begin_behind();
  PoolJob const& job = *job_at;
  std::uint32_t const query = blockIdx.y;
  if (query >= job.n_queries) return;
  std::size_t const base = first_doc(job, query);
  std::uint32_t const n_docs = job.doc_counts[query];
  std::uint32_t const n_warps = gridDim.x * kPoolWarps;
#pragma unroll 1
  for (std::uint32_t i = blockIdx.x * kPoolWarps + threadIdx.x / 32; i < n_docs; i += n_warps) {
    std::size_t const at = base + i;
    PoolDoc const doc = job.docs[at];
#pragma unroll 1
    for (std::uint32_t number = 0; number < job.n_arms; ++number) {
      PoolArm const& arm = job.arms[number];
      if (job.ranks[at * job.n_arms + number] > 0) continue;  // the whole warp
      PoolAnswer const answer = answer_of(arm, query);
      if (answer == PoolAnswer::kNone) continue;
      std::uint32_t const place = arm.places[query];
      float const score = arm.kind == PoolArmKind::kLexical ? score_text(arm, place, answer, doc)
                                                            : score_vector(arm, place, answer, doc);
      if (lane_id() == 0) job.scores[at * job.n_arms + number] = score;
    }
  }
}

}  // namespace hyrecall::cuda
