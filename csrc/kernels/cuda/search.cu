// What:   lays a batch out in one block of memory, copies it to the device in one piece, runs the
//         kernels, copies the results back in one piece and waits once.
// In/Out: SearchParams, checked by device/dense_device.cpp.
// Launch: the kernels of kernels.cuh and scan.cuh, or of lexical.cuh; recorded once per size of
//         batch and replayed.
// Cost:   a copy each way, 9 launches where no query has more tiles than a seed, else 11; one more
//         where queries lie on the device. Of a lexical column 4 or 6.
// Oracle: the CPU path, bit for bit (tests/laws with --device cuda:0; tests/emulator without one).
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/guest.cuh"
#include "kernels/cuda/kept_lists.cuh"
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/lexical.cuh"
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/search.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/timer.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

constexpr std::size_t kMostGraphs = 64;  // a workspace records, before it forgets them all

struct Places {
  std::size_t input_bytes;   // of the job and what it brings
  std::size_t result_bytes;  // at result_begin
  std::size_t result_begin;
  std::size_t all_bytes;
};

bool is_lexical(SearchParams const& params) {
  return params.text.texts.n > 0;
}

// Room for n bytes where so many are wanted; it must not move with the size of a batch, or it could
// not be recorded.
void pad(BlockLayout& layout, std::size_t used, std::size_t room) {
  if (room > used) layout.room<std::uint8_t>(room - used);
}

// Lays out a job; with memory, writes it too. The job itself stands at the beginning.
Places lay_out(SearchParams const& params, ColumnTable const& table, std::uint8_t* host,
               std::uint8_t* device, Rooms const& rooms) {
  BlockLayout layout(host, device);
  std::size_t const n = params.batch.n_queries;
  DenseJob job{};
  DenseJob const* const job_at = layout.room<DenseJob>(1);
  (void)job_at;
  job.batch = params.batch;
  job.batch.ranges = layout.copy(params.batch.ranges, params.n_ranges);
  job.batch.groups = layout.copy(params.batch.groups, params.n_groups);
  job.batch.runs = layout.copy(params.batch.runs, params.n_runs);
  job.batch.cohorts = layout.copy(params.batch.cohorts, params.n_cohorts);
  job.batch.panels = layout.copy(params.batch.panels, params.n_panels);
  job.batch.panel_queries = layout.copy(params.batch.panel_queries, params.n_panel_queries);
  job.batch.panel_places = layout.copy(params.batch.panel_places, params.n_panel_queries);
  job.batch.panel_seeds = layout.copy(params.batch.panel_seeds, params.n_panel_queries);
  job.batch.panel_groups = layout.copy(params.batch.panel_groups, params.n_panel_groups);
  job.batch.visit_begins = layout.copy(params.batch.visit_begins, params.n_visit_begins);
  job.batch.seed_rows = layout.copy(params.batch.seed_rows, n);
  job.batch.guess_ranks = layout.copy(params.batch.guess_ranks, n);
  job.filters = layout.copy(params.filters.data, params.filters.n);
  job.tests = layout.copy(params.tests.data, params.tests.n);
  job.codes = layout.copy(params.codes.data, params.codes.n);
  bool const has_guest = params.guest.gate != nullptr;
  job.guest = params.guest.tensor;
  job.guest_rows = layout.copy(params.guest.rows, has_guest ? n : 0);
  bool const has_text = is_lexical(params);
  job.is_exact = has_text ? 1 : 0;
  if (has_text) job.lexical = lay_out_texts(params.text, table.lexical.data(), layout);
  job.queries = layout.copy_rows(params.queries, has_guest || has_text ? 0 : n, table.dim);
  job.floors = layout.copy(params.floors, n);
  job.strict = layout.copy(params.strict, n);
  job.depths = layout.copy(params.depths, n);
  auto const* const kept = static_cast<KeptLists const*>(params.kept.lists);
  std::uint32_t const* const kept_places = layout.copy(params.kept.places, kept != nullptr ? n : 0);
  Places places{};
  places.input_bytes = layout.bytes();
  pad(layout, places.input_bytes, rooms.input_bytes);

  places.result_begin = layout.bytes();
  job.result_counts = layout.room<std::uint32_t>(n);
  job.overflows = layout.room<std::uint32_t>(n);
  job.thresholds = layout.room<float>(n);
  if (kept != nullptr) {
    job.result_scores = kept->scores;
    job.result_seqs = kept->seqs;
    job.result_slots = kept->slots;
    job.result_stride = kept->depth;
    job.result_places = kept_places;
    job.kept_queries = kept->queries;
    job.kept_inverse_norms = kept->inverse_norms;
  } else {
    job.result_scores = layout.room<float>(n * params.depth);
    job.result_seqs = layout.room<std::int64_t>(n * params.depth);
    job.result_slots = layout.room<std::uint32_t>(n * params.depth);
    job.result_stride = params.depth;
  }
  if (has_guest) {  // they go back with the results: the host scores with them too
    job.guest_values = layout.room<float>(n * table.dim);
    job.readings = layout.room<GuestReading>(n);
    job.queries = job.guest_values;
  }
  places.result_bytes = layout.bytes() - places.result_begin;
  pad(layout, places.result_bytes, rooms.result_bytes);

  job.segments = table.segments.data();
  job.segment_tiles = table.segment_tiles.data();
  job.n_segments = table.n_segments;
  job.dim = table.dim;
  job.row_type = table.type;
  job.plane = params.plane;
  bool const is_int8 = params.plane == FirstPassPlane::kInt8;
  job.greatest_residual = is_int8 ? table.greatest_residual : 0.0f;
  job.plane_chunks = chunks_of(is_int8 ? table.dim : table.dim * item_bytes(table.type));
  job.depth = params.depth;
  job.most_seed_rows = params.most_seed_rows;
  job.capacity = params.capacity;

  job.plane_queries = layout.room<std::uint8_t>(std::size_t{params.batch.n_plane_queries} *
                                                job.plane_chunks * kChunkBytes);
  job.inverse_query_norms = layout.room<float>(n);
  job.query_scales = layout.room<float>(n);
  job.bounds = layout.room<QueryBound>(n);
  job.guesses = layout.room<float>(n);
  job.cuts = layout.room<float>(n);
  job.counts = layout.room<std::uint32_t>(n);
  job.tickets = layout.room<std::uint32_t>(n);
  job.pivots = layout.room<std::uint32_t>(n);
  job.seeds = layout.room<std::uint64_t>(n * params.most_seed_rows);
  job.candidates = layout.room<std::uint64_t>(n * params.capacity);
  job.score_keys = layout.room<std::uint32_t>(has_text ? 0 : n * params.capacity);
  job.lexical.norms = layout.room<float>(params.text.scales.n * kNormLengths);
  places.all_bytes = layout.bytes();
  if (host != nullptr) std::memcpy(host, &job, sizeof job);
  return places;
}

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
  for (std::uint32_t stage = 0; stage < key.n_stages; ++stage) {
    to.done(stage == 0 ? "scan_postings, the seed" : "scan_postings, the rest",
            scanner.scan(job, stage, key.has_words, to.stream()));
    to.run("cut_candidates", cut_candidates, key.n_queries, kSelectThreads, select_bytes(), job);
  }
  run_finish(job, key, to);
}

void run_kernels(DenseJob const* job, GraphKey const& key, DenseBatch const& batch,
                 Scanner const& scanner, Launches& to) {
  unsigned const n = key.n_queries;
  std::size_t const scratch = select_bytes();
  dim3 const by_warps = n_ctas(n, kQueryThreads / 32);
  if (key.has_guest) to.run("take_queries", take_queries, by_warps, kQueryThreads, 0, job);
  to.run("prepare_queries", prepare_queries, by_warps, kQueryThreads, 0, job);
  to.run("fill_panels", fill_panels, scanner.n_multiprocessors(), kQueryThreads, 0, job);
  auto const scan = [&](char const* name, std::uint32_t stage) {
    for (std::uint32_t w = 0; w < batch.n_widths; ++w) {
      std::uint32_t const width = batch.widths[w].width;
      to.done(name, scanner.scan(job, width, w, stage, to.stream()), width);
    }
  };
  scan("scan of the seed", 0);
  dim3 const seed_grid(seed_ctas(n, scanner), n);
  to.run("set_thresholds", set_thresholds, seed_grid, kSelectThreads, scratch, job);
  to.run("take_seeds", take_seeds, seed_grid, kSelectThreads, 0, job);
  if (key.n_stages > 1) {
    scan("scan of the rest", 1);
    to.run("cut_candidates", cut_candidates, n, kSelectThreads, scratch, job);
  }
  dim3 const grid(rescore_ctas(n, scanner), n);
  to.run("rescore, the best", rescore, grid, kRescoreThreads, 0, job, 0u);
  to.run("tighten", tighten, n, kSelectThreads, scratch, job);
  to.run("rescore, the others", rescore, grid, kRescoreThreads, 0, job, 1u);
  run_finish(job, key, to);
}

// Copies in, kernels, copies out: one submission.
void submit(Workspace& workspace, GraphKey const& key, Places const& places,
            DenseBatch const& batch, Scanner const& scanner, KernelTimer* timer) {
  cudaStream_t const stream = workspace.stream;
  std::uint8_t* const memory = workspace.memory.data();
  Launches to(stream, timer);
  // All of the results go back, also what no row of a reply fills.
  check(cudaMemsetAsync(memory + places.result_begin, 0, key.rooms.result_bytes, stream));
  to.done("copy in", cudaMemcpyAsync(memory, workspace.input.data(), key.rooms.input_bytes,
                                     cudaMemcpyHostToDevice, stream));
  auto const* const job = reinterpret_cast<DenseJob const*>(memory);
  if (key.is_lexical) {
    run_lexical(job, key, scanner.lexical(), to);
  } else {
    run_kernels(job, key, batch, scanner, to);
  }
  to.done("copy out", cudaMemcpyAsync(workspace.results.data(), memory + places.result_begin,
                                      key.rooms.result_bytes, cudaMemcpyDeviceToHost, stream));
}

cudaGraphExec_t find_graph(Workspace& workspace, GraphKey const& key, Places const& places,
                           DenseBatch const& batch, Scanner const& scanner) {
  auto const found = workspace.graphs.find(key);
  if (found != workspace.graphs.end()) return found->second;
  if (workspace.graphs.size() >= kMostGraphs) workspace.forget_graphs();
  check(cudaStreamBeginCapture(workspace.stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    submit(workspace, key, places, batch, scanner, nullptr);
  } catch (CudaError const&) {
    cudaStreamEndCapture(workspace.stream, &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(workspace.stream, &graph));
  cudaGraphExec_t made = nullptr;
  cudaError_t const error = cudaGraphInstantiate(&made, graph);
  cudaGraphDestroy(graph);
  check(error);
  return workspace.graphs.emplace(key, made).first->second;
}

void run_search(SearchParams const& params) {
  auto const& table = *static_cast<ColumnTable const*>(params.table);
  std::size_t const n = params.batch.n_queries;
  if (n == 0) return;
  DeviceScope const device_scope(table.device);
  Scanner const& scanner = Scanner::of_device(table.device, params.plane, params.kernels);
  // Sizes are rounded up, so that batches of about the same size are one recorded sequence.
  Rooms rooms{};
  Places places = lay_out(params, table, nullptr, nullptr, rooms);
  rooms = {std::bit_ceil(places.input_bytes), std::bit_ceil(places.result_bytes)};
  places = lay_out(params, table, nullptr, nullptr, rooms);
  GraphKey key{};
  key.rooms = rooms;
  key.n_queries = static_cast<std::uint32_t>(std::bit_ceil(n));
  key.n_stages = params.batch.n_stages;
  for (std::uint32_t w = 0; w < params.batch.n_widths; ++w)
    key.widths =
        key.widths << 8 | static_cast<std::uint32_t>(std::bit_width(params.batch.widths[w].width));
  key.sorted_rows = sorted_rows(params.depth);
  key.plane = static_cast<std::int32_t>(params.plane);
  key.kernels = params.kernels;
  key.has_guest = params.guest.gate != nullptr;
  key.is_lexical = is_lexical(params);
  for (std::size_t q = 0; q < params.text.texts.n; ++q)
    key.has_words = key.has_words || params.text.texts.data[q].is_positive == 0;

  WorkspacePool& pool = WorkspacePool::of_device(table.device);
  WorkspacePool::Loan workspace = pool.borrow();
  workspace.reserve(rooms, places.all_bytes);
  lay_out(params, table, workspace->input.data(), workspace->memory.data(), rooms);
  cudaStream_t const stream = workspace->stream;
  if (key.has_guest) wait_for_guest(params.guest.gate, stream);
  if (params.times == nullptr) {
    check(cudaGraphLaunch(find_graph(*workspace, key, places, params.batch, scanner), stream));
    check(cudaStreamSynchronize(stream));
  } else {
    KernelTimer timer(*params.times, stream);
    submit(*workspace, key, places, params.batch, scanner, &timer);
    check(cudaStreamSynchronize(stream));
    timer.read();
  }

  // Where results lie on the device, they lie on the host behind the beginning of its block.
  auto const& job = *reinterpret_cast<DenseJob const*>(workspace->input.data());
  auto const on_host = [&]<typename T>(T* at) {
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    std::uint8_t const* const begin = workspace->memory.data() + places.result_begin;
    return reinterpret_cast<T const*>(workspace->results.data() + (place - begin));
  };
  if (params.candidates != nullptr) {
    check(cudaMemcpy(params.candidates, job.candidates, n * params.capacity * sizeof(std::uint64_t),
                     cudaMemcpyDeviceToHost));
  }
  if (key.has_guest) {
    float const* const values = on_host(job.guest_values);
    for (std::size_t q = 0; q < n; ++q)
      std::memcpy(params.guest.values[q], values + q * table.dim, table.dim * sizeof(float));
    std::memcpy(params.guest.readings, on_host(job.readings), n * sizeof(GuestReading));
  }
  SearchResults results{};
  results.counts = on_host(job.result_counts);
  results.overflows = on_host(job.overflows);
  results.thresholds = on_host(job.thresholds);
  if (params.kept.lists == nullptr) {
    results.scores = on_host(job.result_scores);
    results.seqs = on_host(job.result_seqs);
    results.slots = on_host(job.result_slots);
  }
  params.take(params.context, results);
}

}  // namespace

Status search(SearchParams const* params) {
  return guarded([&] { run_search(*params); });
}

Status scans(std::int32_t device, FirstPassPlane plane, KernelChoice kernels, ScanVariant* out,
             std::uint32_t* n) {
  return guarded([&] {
    DeviceScope const device_scope(device);
    *n = Scanner::of_device(device, plane, kernels).scans(out);
  });
}

}  // namespace hyrecall::cuda
