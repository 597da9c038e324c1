// What:   lays a call out: the searches of one or several arms, and the pools that their lists
//         become. Copies it to the device in one piece, runs the kernels, copies the results back
//         in one piece and waits once.
// In/Out: SearchParams and PoolParams, checked by device/dense_pass.cpp and device/pool_device.cpp.
// Launch: see sequence.cu; the second and later arms on a stream of their own; then the three
// kernels
//         of pool.cuh.
// Cost:   one copy down and one up.
// Oracle: the CPU path, bit for bit (tests/laws with --device cuda:0; tests/emulator without one).
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/max_sim.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/sequence.cuh"

namespace hyrecall::cuda {
namespace {

ColumnTable const& table_of(SearchParams const& params) {
  return static_cast<ColumnTable const&>(*params.table);
}

bool is_lexical(SearchParams const& params) {
  return !params.text.texts.empty();
}

bool has_many(SearchParams const& params) {
  return !params.vector_begins.empty();
}

// Vectors of all queries.
std::size_t n_vectors_of(SearchParams const& params) {
  return has_many(params) ? params.vector_begins.back() : params.batch.n_queries;
}

Scanner const& scanner_of(SearchParams const& params) {
  return one_of<Scanner>(table_of(params).device, params.plane, params.kernels);
}

// ---- the arrays of a search

// Text queries; segments: of their column.
LexicalJob lay_out_texts(TextQueries const& text, LexicalSegment const* segments,
                         BlockLayout& layout) {
  LexicalJob out{};
  out.segments = segments;
  out.texts = layout.copy(text.texts);
  out.weights = layout.copy(text.weights);
  if (!text.shifts.empty()) out.shifts = layout.copy(text.shifts);
  out.lists = layout.copy(text.lists);
  out.own_lists = layout.copy(text.own_lists);
  out.own_postings = layout.copy(text.own_postings);
  out.own_runs = layout.copy(text.own_runs);
  out.own_escapes = layout.copy(text.own_escapes);
  out.match_steps = layout.copy(text.match_steps);
  out.scales = layout.copy(text.scales);
  out.n_scales = static_cast<std::uint32_t>(text.scales.size());
  out.bm25 = text.bm25;
  return out;
}

void lay_out_input(SearchParams const& params, BlockLayout& layout, DenseJob& job) {
  ColumnTable const& table = table_of(params);
  std::size_t const n = params.batch.n_queries;
  DenseBatch const& batch = params.batch;
  job.batch = batch;
  job.batch.ranges = layout.copy(batch.ranges, params.n_ranges);
  job.batch.groups = layout.copy(batch.groups, params.n_groups);
  job.batch.runs = layout.copy(batch.runs, params.n_runs);
  job.batch.cohorts = layout.copy(batch.cohorts, batch.n_cohorts);
  job.batch.visit_begins = layout.copy(batch.visit_begins, std::size_t{batch.n_cohorts} + 1);
  job.batch.panels = layout.copy(batch.panels, batch.n_panels);
  job.batch.panel_queries = layout.copy(batch.panel_queries, params.n_panel_queries);
  job.batch.panel_places = layout.copy(batch.panel_places, params.n_panel_queries);
  job.batch.panel_groups = layout.copy(batch.panel_groups, params.n_panel_groups);
  job.batch.wides = layout.copy(batch.wides, batch.n_wides);
  job.batch.query_groups = layout.copy(batch.query_groups, n);
  job.batch.guess_ranks = layout.copy(batch.guess_ranks, n);
  job.batch.orphans = layout.copy(batch.orphans, batch.n_orphans);
  job.filters = layout.copy(params.filters);
  job.tests = layout.copy(params.tests);
  job.codes = layout.copy(params.codes);
  bool const has_guest = params.guest.gate != nullptr;
  job.guest = params.guest.tensor;
  job.guest_rows = layout.copy(params.guest.rows, has_guest ? n : 0);
  bool const has_text = is_lexical(params);
  job.is_exact = has_text ? 1 : 0;
  job.is_asked = params.candidates != nullptr ? 1 : 0;
  if (has_text) job.lexical = lay_out_texts(params.text, table.lexical.data(), layout);
  if (has_many(params)) job.vector_begins = layout.copy(params.vector_begins);
  job.sparse_begins = layout.copy(params.sparse.of_segments);
  job.sparse_runs = layout.copy(params.sparse.runs);
  std::size_t const n_given = has_guest || has_text ? 0 : n_vectors_of(params);
  job.queries = layout.copy_rows(params.queries, n_given * table.dim);
  job.floors = layout.copy(params.floors, n);
  job.strict = layout.copy(params.strict, n);
  job.depths = layout.copy(params.depths, n);

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
  job.result_stride = params.depth;
  job.capacity = params.capacity;
  job.room = params.room;
  job.most_entries = params.most_entries;
  job.most_samples = params.most_samples;
}

// What goes back to the host whatever becomes of the lists. n_places: of what is found.
void lay_out_flags(SearchParams const& params, std::size_t n_places, BlockLayout& layout,
                   DenseJob& job) {
  std::size_t const n = params.batch.n_queries;
  job.result_counts = layout.room<std::uint32_t>(n_places);
  job.overflows = layout.room<std::uint32_t>(n);
  if (params.guest.gate == nullptr) return;
  // The host scores with them too.
  job.guest_values = layout.room<float>(n * table_of(params).dim);
  job.readings = layout.room<GuestReading>(n);
  job.queries = job.guest_values;
}

void lay_out_found(std::size_t n_rows, BlockLayout& layout, DenseJob& job) {
  job.result_scores = layout.room<float>(n_rows);
  job.result_seqs = layout.room<std::int64_t>(n_rows);
  job.result_slots = layout.room<std::uint32_t>(n_rows);
}

void lay_out_work(SearchParams const& params, BlockLayout& layout, DenseJob& job) {
  DenseBatch const& batch = params.batch;
  std::size_t const n = batch.n_queries;
  job.first_visits = layout.room<Visit>(batch.n_first);
  job.rest_visits = layout.room<Visit>(batch.n_rest);
  job.wide_visits = layout.room<Visit>(batch.n_wide);
  std::size_t const n_vectors = n_vectors_of(params);
  std::size_t const n_places =
      has_many(params) ? places_of_vectors(n, n_vectors) : batch.n_plane_queries;
  job.plane_queries = layout.room<std::uint8_t>(n_places * job.plane_chunks * kChunkBytes);
  job.inverse_query_norms = layout.room<float>(n_vectors);
  job.query_scales = layout.room<float>(n_vectors);
  job.vector_bounds = layout.room<QueryBound>(has_many(params) ? n_vectors : 0);
  job.bounds = layout.room<QueryBound>(n);
  job.guesses = layout.room<float>(n);
  job.cuts = layout.room<float>(n);
  job.counts = layout.room<std::uint32_t>(n);
  job.tickets = layout.room<std::uint32_t>(n);
  job.samples = layout.room<std::uint32_t>(n * params.most_samples);
  job.candidates = layout.room<std::uint64_t>(n * params.room);
  bool const has_shares =
      !is_lexical(params) &&
      (has_many(params) ||
       PickShape::has_shares(graph_key(params).n_queries, scanner_of(params).n_multiprocessors()));
  job.shares = layout.room<std::uint64_t>(has_shares ? n * params.most_entries : 0);
  job.lexical.norms = layout.room<float>(params.text.scales.size() * kNormLengths);
}

// The queries of another library's tensor, as the host wants them.
void give_guests(Call const& call, SearchParams const& params, DenseJob const& job) {
  if (params.guest.gate == nullptr) return;
  std::size_t const n = params.batch.n_queries;
  std::size_t const dim = table_of(params).dim;
  float const* const values = call.on_host(job.guest_values);
  for (std::size_t q = 0; q < n; ++q)
    std::memcpy(params.guest.values[q], values + q * dim, dim * sizeof(float));
  std::memcpy(params.guest.readings, call.on_host(job.readings), n * sizeof(GuestReading));
}

// ---- searches beside one another

struct Branch {
  SearchParams const* params;
  GraphKey key;
  cudaGraphExec_t sequence = nullptr;

  Scanner const& scanner() const { return scanner_of(*params); }
};

// The first on the call's stream, the others beside it; what comes on that stream waits for all.
void launch_branches(Workspace const& workspace, std::span<Branch const> branches) {
  cudaStream_t const stream = workspace.stream.get();
  cudaStream_t const side = workspace.side.get();
  check(cudaEventRecord(workspace.forked.get(), stream));
  check(cudaStreamWaitEvent(side, workspace.forked.get()));
  for (std::size_t i = 0; i < branches.size(); ++i)
    check(cudaGraphLaunch(branches[i].sequence, i == 0 ? stream : side));
  check(cudaEventRecord(workspace.joined.get(), side));
  check(cudaStreamWaitEvent(stream, workspace.joined.get()));
}

// All of a call between its copies: searches, then what `then` launches. Timed, they come one by
// one.
template <typename Then>
void run(Call const& call, std::span<Branch> branches, KernelTimes* times, Then&& then) {
  cudaStream_t const stream = call.stream();
  for (Branch const& one : branches)
    if (one.key.has_guest) wait_for_guest(one.params->guest.gate, stream);
  if (times == nullptr) {
    bool overlaps = true;
    // First: where this fails, no copy reads memory that another search may have by then.
    for (Branch& one : branches) {
      one.sequence = recorded_sequence(call.workspace(), one.key, one.scanner());
      overlaps = overlaps && one.scanner().overlaps();
    }
    call.copy_in();
    if (branches.size() == 1) {
      check(cudaGraphLaunch(branches.front().sequence, stream));
    } else {
      launch_branches(call.workspace(), branches);
    }
    Launches to({stream, overlaps}, nullptr);
    then(to);
    call.copy_out();
    call.wait();
    return;
  }
  KernelTimer timer(*times, stream);
  Launches to({stream}, &timer);
  call.copy_in();
  timer.add("copy in", 0);
  for (Branch const& one : branches) run_sequence(call.workspace(), one.key, one.scanner(), to);
  then(to);
  call.copy_out();
  timer.add("copy out", 0);
  call.wait();
  timer.read();
}

// ---- a search alone

void run_search(SearchParams const& params) {
  std::size_t const n = params.batch.n_queries;
  if (n == 0) return;
  int const device = table_of(params).device;
  DeviceScope const device_scope(device);
  std::uint32_t const is_dense = is_lexical(params) ? 0 : 1;
  DenseJob job{};
  Call const call(device, [&](Layouts& to) {
    DenseJob const* const place = to.input.room<DenseJob>(2) + is_dense;
    lay_out_input(params, to.input, job);
    lay_out_flags(params, n, to.results, job);
    job.thresholds = to.results.room<float>(n);
    lay_out_found(n * params.depth, to.results, job);
    lay_out_work(params, to.work, job);
    to.input.write(place, job);
  });
  Branch branch{&params, graph_key(params, is_dense)};
  run(call, {&branch, 1}, params.times, [](Launches&) {});
  if (params.candidates != nullptr) {
    check(cudaMemcpy(params.candidates, job.candidates, n * params.room * sizeof(std::uint64_t),
                     cudaMemcpyDeviceToHost));
  }
  give_guests(call, params, job);
  params.take(params.context, {call.on_host(job.result_counts), call.on_host(job.result_scores),
                               call.on_host(job.result_seqs), call.on_host(job.result_slots),
                               call.on_host(job.overflows), call.on_host(job.thresholds)});
}

// ---- pools

using Jobs = std::array<DenseJob, kMostPoolArms>;

// Jobs of texts stand at even places and those of vectors at odd ones, as in a search alone, so
// that both have the same recordings.
std::uint32_t place_of_job(std::span<PoolArmParams const> arms, std::size_t arm) {
  std::uint32_t place = arms[arm].kind == PoolArmKind::kDense ? 1 : 0;
  for (std::size_t i = 0; i < arm; ++i) place += arms[i].kind == arms[arm].kind ? 2 : 0;
  return place;
}

// An arm's lists; of a search, whose job is laid out as far as its input.
PoolArm lay_out_arm(PoolArmParams const& from, std::uint32_t n_queries, BlockLayout& layout,
                    DenseJob& job) {
  PoolArm out{};
  out.kind = from.kind;
  out.begins = layout.copy(from.lists.begins);
  if (from.search == nullptr) {
    out.counts = layout.copy(from.lists.counts);
    out.scores = layout.copy(from.lists.scores);
    out.seqs = layout.copy(from.lists.seqs);
    out.slots = layout.copy(from.lists.slots);
    out.segment_tiles = layout.copy(from.lists.segment_tiles);
    out.n_segments = static_cast<std::uint32_t>(from.lists.segment_tiles.size());
    return out;
  }
  out.depth = from.depth;
  out.has_floor = from.has_floor;
  out.asks = layout.copy(from.asks, n_queries);
  out.places = layout.copy(from.places, n_queries);
  job.result_places = layout.copy(from.queries, from.search->batch.n_queries);
  ColumnTable const& table = table_of(*from.search);
  out.segment_tiles = table.segment_tiles.data();
  out.n_segments = table.n_segments;
  out.row_type = table.type;
  out.dim = table.dim;
  out.segments = table.segments.data();
  out.lexical = job.lexical;
  out.lexical.segments = table.lexical.data();  // also where none of its texts is searched for
  return out;
}

// Gives where the pools' job lies.
PoolJob const* lay_out_pools(PoolParams const& params, Layouts& to, Jobs& jobs, PoolJob& pool) {
  std::uint32_t const n = params.n_queries;
  auto const n_arms = static_cast<std::uint32_t>(params.arms.size());
  DenseJob const* const first = to.input.room<DenseJob>(2 * kMostPoolArms);
  PoolJob const* const place = to.input.room<PoolJob>(1);
  pool.n_queries = n;
  pool.n_arms = n_arms;
  pool.fusion = params.fusion;
  std::size_t n_docs = 0;
  for (std::uint32_t arm = 0; arm < n_arms; ++arm) {
    PoolArmParams const& from = params.arms[arm];
    DenseJob& job = jobs[arm];
    n_docs +=
        from.search != nullptr ? std::size_t{n} * from.search->depth : from.lists.scores.size();
    if (from.search != nullptr) {
      lay_out_input(*from.search, to.input, job);
      lay_out_flags(*from.search, n, to.results, job);
    }
    PoolArm& made = pool.arms[arm] = lay_out_arm(from, n, to.input, job);
    if (from.search == nullptr) continue;
    lay_out_found(std::size_t{n} * from.search->depth, to.work, job);
    job.thresholds = to.work.room<float>(from.search->batch.n_queries);
    lay_out_work(*from.search, to.work, job);
    made.counts = job.result_counts;
    made.scores = job.result_scores;
    made.seqs = job.result_seqs;
    made.slots = job.result_slots;
    made.queries = job.queries;
    made.inverse_query_norms = job.inverse_query_norms;
  }
  pool.doc_counts = to.work.room<std::uint32_t>(n);
  pool.seqs = to.work.room<std::int64_t>(n_docs);
  pool.docs = to.work.room<PoolDoc>(n_docs);
  pool.scores = to.work.room<float>(n_docs * n_arms);
  pool.ranks = to.work.room<std::int32_t>(n_docs * n_arms);
  std::size_t const n_hits = std::size_t{n} * params.fusion.limit;
  pool.hit_counts = to.results.room<std::uint32_t>(n);
  pool.hit_docs = to.results.room<PoolDoc>(n_hits);
  pool.hit_scores = to.results.room<double>(n_hits);
  pool.hit_arm_scores = to.results.room<float>(n_hits * n_arms);
  pool.hit_arm_ranks = to.results.room<std::int32_t>(n_hits * n_arms);
  pool.query_scales = to.results.room<double>(std::size_t{n} * scales_a_query(n_arms));
  for (std::uint32_t arm = 0; arm < n_arms; ++arm)
    if (params.arms[arm].search != nullptr)
      to.input.write(first + place_of_job(params.arms, arm), jobs[arm]);
  to.input.write(place, pool);
  return place;
}

// The most shared memory that a kernel asks for.
struct PoolKernels {
  explicit PoolKernels(int) {
    check(cudaFuncSetAttribute(join_lists, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(join_bytes(kMostPoolDocs))));
    check(cudaFuncSetAttribute(fuse_pools, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(fuse_bytes(kMostPoolDocs))));
  }
};

void launch_pools(PoolParams const& params, PoolJob const* job, Launches& to) {
  unsigned const n = params.n_queries;
  std::uint32_t most = 0;  // documents of a query
  for (PoolArmParams const& arm : params.arms) {
    auto const& counts = arm.lists.counts;
    most +=
        arm.search != nullptr ? arm.search->depth : *std::max_element(counts.begin(), counts.end());
  }
  std::uint32_t const n_sorted = std::bit_ceil(std::max(most, 1u));
  // It comes behind several streams.
  to.done("join_lists",
          launch(join_lists, n, kPoolThreads, join_bytes(n_sorted), to.queue().stream, job));
  // CTAs that share the documents of a query: enough for a few queries to keep the device busy.
  unsigned const n_ctas = std::clamp(1024u / n, 1u, 32u);
  to.run("complete_pools", complete_pools, dim3(n_ctas, n), kPoolThreads, 0, job);
  to.run("fuse_pools", fuse_pools, n, kPoolThreads, fuse_bytes(n_sorted), job);
}

void make_hits(PoolParams const& params) {
  if (params.n_queries == 0) return;
  DeviceScope const device_scope(params.device);
  one_of<PoolKernels>(params.device);
  Jobs jobs{};
  PoolJob pool{};
  PoolJob const* pool_at = nullptr;
  Call const call(params.device,
                  [&](Layouts& to) { pool_at = lay_out_pools(params, to, jobs, pool); });
  std::vector<Branch> branches;
  for (std::size_t arm = 0; arm < params.arms.size(); ++arm) {
    SearchParams const* const search = params.arms[arm].search;
    if (search != nullptr && search->batch.n_queries > 0)
      branches.push_back({search, graph_key(*search, place_of_job(params.arms, arm))});
  }
  run(call, branches, params.times, [&](Launches& to) { launch_pools(params, pool_at, to); });
  PoolResults results{};
  results.hit_counts = call.on_host(pool.hit_counts);
  results.hit_docs = call.on_host(pool.hit_docs);
  results.hit_scores = call.on_host(pool.hit_scores);
  results.hit_arm_scores = call.on_host(pool.hit_arm_scores);
  results.hit_arm_ranks = call.on_host(pool.hit_arm_ranks);
  results.query_scales = call.on_host(pool.query_scales);
  for (std::size_t arm = 0; arm < params.arms.size(); ++arm) {
    SearchParams const* const search = params.arms[arm].search;
    if (search == nullptr) continue;
    give_guests(call, *search, jobs[arm]);
    results.counts[arm] = call.on_host(jobs[arm].result_counts);
    results.overflows[arm] = call.on_host(jobs[arm].overflows);
  }
  params.take(params.context, results);
}

}  // namespace

Status search(SearchParams const* params) {
  return guarded([&] { run_search(*params); });
}

Status run_pool(PoolParams const* params) {
  return guarded([&] { make_hits(*params); });
}

Status scans(std::int32_t device, FirstPassPlane plane, KernelChoice kernels, ScanVariant* out,
             std::uint32_t* n) {
  return guarded([&] {
    DeviceScope const device_scope(device);
    *n = one_of<Scanner>(device, plane, kernels).scans(out);
  });
}

}  // namespace hyrecall::cuda
