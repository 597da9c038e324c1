// What:   the kernels of a search in their order. They are recorded once for each size of batch and
//         replayed.
// In/Out: a job of device memory.
// Launch: every kernel that a batch of the key's size may need, so that a recording knows nothing
// of
//         a batch but about how many queries it has: a kernel without work returns at once. Copies
//         of arrays are no part of it, since their sizes differ.
// Cost:   a launch without work, some 1 to 2 us, for each width and stage that a batch does not
//         have. One width up to 8 queries.
// Oracle: the CPU path, bit for bit; tests/native/test_device_graphs.cpp counts recordings.
#include <algorithm>
#include <bit>

#include "kernels/cuda/max_sim.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/sequence.cuh"

namespace hyrecall::cuda {
namespace {

// Up to so many queries a multiprocessor has one CTA of pick_best() or none, which may have all the
// memory that it can sort in. Of more queries it has little, unless they want many rows.
constexpr std::uint32_t kFewQueries = 128;
// From here on no kernel has several CTAs a query, so that idle ones are all that a larger number
// of them costs.
constexpr std::uint32_t kManyQueries = 257;
constexpr std::uint32_t kMostQueries = 1024;

void run_lexical(DenseJob const* job, GraphKey const& key, Scanner const& scanner, Launches& to) {
  std::size_t const bytes = text_bytes(key.has_words);
  std::uint32_t const has_words = key.has_words ? 1 : 0;
  auto const scan = [&](char const* name, std::uint32_t stage) {
    to.run(name, scan_postings, scanner.text_ctas(key.has_words), kTextThreads, bytes, job, stage,
           has_words);
  };
  to.run("prepare_texts", prepare_texts, scanner.n_multiprocessors(), kTextThreads, 0, job);
  scan("scan_postings, first", 0);
  to.run("cut_texts", cut_texts, key.n_queries, kSelectThreads, select_bytes(), job);
  scan("scan_postings, the rest", 1);
}

void run_dense(DenseJob const* job, GraphKey const& key, Scanner const& scanner, Launches& to) {
  if (key.has_guest) {
    unsigned const n_ctas = (key.n_queries * 32 + kQueryThreads - 1) / kQueryThreads;
    to.run("take_queries", take_queries, n_ctas, kQueryThreads, 0, job);
  }
  to.run("prepare_queries", prepare_queries, 4 * scanner.n_multiprocessors(), kQueryThreads, 0,
         job);
  auto const scan = [&](char const* name, Scanner::Launch const& one, auto* kernel) {
    to.done(name,
            launch_behind(kernel, one.n_ctas, one.kernel.n_threads, one.kernel.shared_bytes,
                          to.queue(), job),
            one.scan.width);
  };
  Scanner::Launch const& stream = scanner.stream();
  scan("scan of the first tiles", stream, stream.kernel.first);
  to.run("guess_thresholds", guess_thresholds, key.n_queries, kSelectThreads, select_bytes(), job);
  scan("scan of the rest", stream, stream.kernel.rest);
  if (key.wide_queries > 0) {
    Scanner::Launch const& wide = scanner.wide(key.wide_queries);
    scan("scan of the rest", wide, wide.kernel.rest);
  }
}

void run_many(DenseJob const* job, GraphKey const& key, Scanner const& scanner, Launches& to) {
  unsigned const n_ctas = kManyCtas * scanner.n_multiprocessors();
  to.run("prepare_many", prepare_many, n_ctas, kPrepareThreads, 0, job);
  if (key.many_chunks == kNone32) {
    unsigned const n_all = kSparseCtas * scanner.n_multiprocessors();
    to.run("scan_sparse", scan_sparse, n_all, kSparseThreads, kSparseBytes, job);
    return;
  }
  to.run("scan_many", scan_many, n_ctas, kManyThreads, many_bytes(key.many_chunks), job);
}

}  // namespace

GraphKey graph_key(SearchParams const& params, std::uint32_t number) {
  GraphKey key{};
  key.number = number;
  std::uint32_t const n = params.batch.n_queries;
  key.n_queries = n < kManyQueries ? std::bit_ceil(n) : std::max(std::bit_ceil(n), kMostQueries);
  bool const is_short = n > kFewQueries && sorted_rows(params.depth) <= PickShape::kFewRows;
  key.sorted_rows = is_short ? PickShape::kFewRows : kMostSorted;
  key.is_lexical = !params.text.texts.empty();
  if (key.is_lexical) {
    for (LexicalText const& text : params.text.texts)
      key.has_words = key.has_words || text.is_positive == 0;
    return key;
  }
  if (!params.vector_begins.empty()) {
    std::uint32_t const dim = static_cast<ColumnTable const&>(*params.table).dim;
    key.many_chunks = params.sparse.of_segments.empty() ? chunks_of(dim) : kNone32;
    return key;
  }
  key.plane = static_cast<std::int32_t>(params.plane);
  key.kernels = params.kernels;
  key.has_guest = params.guest.gate != nullptr;
  key.wide_queries = params.wide_queries;
  return key;
}

void run_sequence(Workspace& workspace, GraphKey const& key, Scanner const& scanner, Launches& to) {
  auto const* const job =
      reinterpret_cast<DenseJob const*>(workspace.device_input.data()) + key.number;
  bool const has_many = key.many_chunks > 0;
  if (key.is_lexical) {
    run_lexical(job, key, scanner, to);
  } else if (has_many) {
    run_many(job, key, scanner, to);
  } else {
    run_dense(job, key, scanner, to);
  }
  PickShape shape = PickShape::of(key.n_queries, key.sorted_rows, key.is_lexical,
                                  scanner.n_multiprocessors(), scanner.most_shared_bytes());
  if (has_many) shape = PickShape::shared(shape, key.sorted_rows);
  auto* const pick = !has_many                    ? pick_best<RowKind::kOne>
                     : key.many_chunks == kNone32 ? pick_best<RowKind::kSparse>
                                                  : pick_best<RowKind::kMany>;
  to.run("pick_best", pick, dim3(shape.n_ctas, key.n_queries), kSelectThreads, shape.shared_bytes,
         job, shape.list_room);
}

cudaGraphExec_t recorded_sequence(Workspace& workspace, GraphKey const& key,
                                  Scanner const& scanner) {
  if (cudaGraphExec_t const found = workspace.find_graph(key)) return found;
  cudaStream_t const stream = workspace.stream.get();
  Launches to({stream, scanner.overlaps()}, nullptr);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    run_sequence(workspace, key, scanner, to);
  } catch (CudaError const&) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t made = nullptr;
  cudaError_t const error = cudaGraphInstantiate(&made, graph);
  cudaGraphDestroy(graph);
  check(error);
  workspace.keep_graph(key, made);
  return made;
}

}  // namespace hyrecall::cuda
