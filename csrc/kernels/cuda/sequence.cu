// What:   the kernels of a search in their order. They are recorded once for each size of batch,
// with
//         the copy of the job, and replayed.
// In/Out: a workspace's job, of device memory.
// Launch: every kernel that a batch of the key's size may need, so that a recording knows nothing
// of
//         a batch but about how many queries it has: a kernel without work returns at once. Copies
//         of arrays are no part of it, since their sizes differ.
// Cost:   a launch without work, some 1 to 2 us, for each width and stage that a batch does not
//         have. One width up to 8 queries.
// Oracle: the CPU path, bit for bit; tests/native/test_device_graphs.cpp counts recordings.
#include <algorithm>
#include <bit>

#include "kernels/cuda/seeds.cuh"
#include "kernels/cuda/sequence.cuh"

namespace hyrecall::cuda {
namespace {

constexpr std::uint32_t kMostStages = 2;  // see dense_planner

// Up to so many queries a multiprocessor has one CTA of finish() or none, which may have all the
// memory that it can sort in. Of more queries it has little, unless they want many rows.
constexpr std::uint32_t kFewQueries = 128;
constexpr std::uint32_t kFewRows = 256;
// From here on no kernel has several CTAs a query, so that idle ones are all that a larger number
// of them costs.
constexpr std::uint32_t kManyQueries = 257;
constexpr std::uint32_t kMostQueries = 1024;

unsigned n_ctas(std::size_t n, unsigned per_cta) {
  return static_cast<unsigned>((n + per_cta - 1) / per_cta);
}

// CTAs that share the candidates of a query when they are scored: enough for a single query to keep
// the device busy.
unsigned rescore_ctas(unsigned n_queries, Scanner const& scanner) {
  return std::clamp(4 * scanner.n_multiprocessors() / n_queries, 1u, 64u);
}

// CTAs that share a query's seed, which has 16,384 rows at most: where queries are many, one; else
// as many as fill the device twice.
unsigned seed_ctas(unsigned n_queries, Scanner const& scanner) {
  return std::clamp(2 * scanner.n_multiprocessors() / n_queries, 1u, 16u);
}

// The kernels of a search; a timer, where there is one, hears of each.
class Launches {
 public:
  Launches(cudaStream_t stream, KernelTimer* timer) : stream_(stream), timer_(timer) {}

  template <typename... P, typename... A>
  void run(char const* name, void (*kernel)(P...), dim3 grid, unsigned n_threads,
           std::size_t shared_bytes, A const&... arguments) {
    done(name, launch(kernel, grid, n_threads, shared_bytes, stream_, arguments...));
  }
  void done(char const* name, cudaError_t error, std::uint32_t width = 0) {
    check(error);
    if (timer_ != nullptr) timer_->add(name, width);
  }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_;
  KernelTimer* timer_;
};

void run_finish(DenseJob const* job, GraphKey const& key, Launches& to) {
  std::size_t const bytes = select_bytes() + key.sorted_rows * kSortedBytes;
  to.run("finish", finish, key.n_queries, kSelectThreads, bytes, job);
}

void run_lexical(DenseJob const* job, GraphKey const& key, LexicalScanner const& scanner,
                 Launches& to) {
  to.done("prepare_texts", scanner.prepare(job, to.stream()));
  for (std::uint32_t stage = 0; stage < kMostStages; ++stage) {
    to.done(stage == 0 ? "scan_postings, the seed" : "scan_postings, the rest",
            scanner.scan(job, stage, key.has_words, to.stream()));
    to.run("cut_candidates", cut_candidates, key.n_queries, kSelectThreads, select_bytes(), job,
           stage);
  }
  run_finish(job, key, to);
}

void run_dense(DenseJob const* job, GraphKey const& key, Scanner const& scanner, Launches& to) {
  unsigned const n = key.n_queries;
  std::size_t const scratch = select_bytes();
  dim3 const by_warps = n_ctas(n, kQueryThreads / 32);
  if (key.has_guest) to.run("take_queries", take_queries, by_warps, kQueryThreads, 0, job);
  to.run("prepare_queries", prepare_queries, by_warps, kQueryThreads, 0, job);
  to.run("fill_panels", fill_panels, scanner.n_multiprocessors(), kQueryThreads, 0, job);
  auto const scan = [&](char const* name, std::uint32_t stage) {
    for (Scanner::Launch const& one : scanner.launches(n)) {
      to.done(name,
              launch(one.kernel.kernel, one.n_ctas, one.kernel.n_threads, one.kernel.shared_bytes,
                     to.stream(), job, stage),
              one.scan.width);
    }
  };
  scan("scan of the seed", 0);
  dim3 const seed_grid(seed_ctas(n, scanner), n);
  to.run("set_thresholds", set_thresholds, seed_grid, kSelectThreads, seed_bytes(), job);
  to.run("take_seeds", take_seeds, seed_grid, kSelectThreads, 0, job);
  scan("scan of the rest", 1);
  to.run("cut_candidates", cut_candidates, n, kSelectThreads, scratch, job, 1u);
  dim3 const grid(rescore_ctas(n, scanner), n);
  to.run("rescore, the best", rescore, grid, kRescoreThreads, 0, job, 0u);
  to.run("tighten", tighten, n, kSelectThreads, scratch, job);
  to.run("rescore, the others", rescore, grid, kRescoreThreads, 0, job, 1u);
  run_finish(job, key, to);
}

}  // namespace

GraphKey graph_key(SearchParams const& params) {
  GraphKey key{};
  std::uint32_t const n = params.batch.n_queries;
  key.n_queries = n < kManyQueries ? std::bit_ceil(n) : std::max(std::bit_ceil(n), kMostQueries);
  bool const is_short = n > kFewQueries && sorted_rows(params.depth) <= kFewRows;
  key.sorted_rows = is_short ? kFewRows : kMostSorted;
  key.is_lexical = params.text.texts.n > 0;
  if (key.is_lexical) {
    for (std::size_t q = 0; q < params.text.texts.n; ++q)
      key.has_words = key.has_words || params.text.texts.data[q].is_positive == 0;
    return key;
  }
  key.plane = static_cast<std::int32_t>(params.plane);
  key.kernels = params.kernels;
  key.has_guest = params.guest.gate != nullptr;
  return key;
}

void run_sequence(Workspace& workspace, GraphKey const& key, Scanner const& scanner,
                  KernelTimer* timer) {
  Launches to(workspace.stream, timer);
  check(cudaMemcpyAsync(workspace.job.on_device(), workspace.job.on_host(), JobPlace::kBytes,
                        cudaMemcpyHostToDevice, to.stream()));
  auto const* const job = reinterpret_cast<DenseJob const*>(workspace.job.on_device());
  if (key.is_lexical) {
    run_lexical(job, key, scanner.lexical(), to);
  } else {
    run_dense(job, key, scanner, to);
  }
}

cudaGraphExec_t recorded_sequence(Workspace& workspace, GraphKey const& key,
                                  Scanner const& scanner) {
  if (cudaGraphExec_t const found = workspace.find_graph(key)) return found;
  check(cudaStreamBeginCapture(workspace.stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    run_sequence(workspace, key, scanner, nullptr);
  } catch (CudaError const&) {
    cudaStreamEndCapture(workspace.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(workspace.stream, &graph));
  cudaGraphExec_t made = nullptr;
  cudaError_t const error = cudaGraphInstantiate(&made, graph);
  cudaGraphDestroy(graph);
  check(error);
  workspace.keep_graph(key, made);
  return made;
}

}  // namespace hyrecall::cuda
