// What:   lays a batch out in one block of memory, copies it to the device in one piece, and the
// job
//         that says where its arrays lie in another; runs the kernels, copies the results back in
//         one piece and waits once.
// In/Out: SearchParams, checked by device/dense_device.cpp.
// Launch: see sequence.cu.
// Cost:   two copies down, of which one has 2 KB, and one up.
// Oracle: the CPU path, bit for bit (tests/laws with --device cuda:0; tests/emulator without one).
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/guest.cuh"
#include "kernels/cuda/kept_lists.cuh"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/search.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/sequence.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

static_assert(sizeof(DenseJob) <= JobPlace::kBytes);

struct Places {
  std::size_t input_bytes;  // of what the job brings
  std::size_t result_bytes;
  std::size_t result_begin;
  std::size_t all_bytes;
  DenseJob job;  // of device memory
};

bool is_lexical(SearchParams const& params) {
  return params.text.texts.n > 0;
}

bool has_shared_queries(SearchParams const& params, int device) {
  return PickShape::has_shares(
      graph_key(params).n_queries,
      Scanner::of_device(device, params.plane, params.kernels).n_multiprocessors());
}

// Lays out what a job brings, what it gives, and what its kernels need; with memory, writes what it
// brings too.
Places lay_out(SearchParams const& params, ColumnTable const& table, std::uint8_t* host,
               std::uint8_t* device) {
  BlockLayout layout(host, device);
  std::size_t const n = params.batch.n_queries;
  Places places{};
  DenseJob& job = places.job;
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
  job.filters = layout.copy(params.filters.data, params.filters.n);
  job.tests = layout.copy(params.tests.data, params.tests.n);
  job.codes = layout.copy(params.codes.data, params.codes.n);
  bool const has_guest = params.guest.gate != nullptr;
  job.guest = params.guest.tensor;
  job.guest_rows = layout.copy(params.guest.rows, has_guest ? n : 0);
  bool const has_text = is_lexical(params);
  job.is_exact = has_text ? 1 : 0;
  job.is_asked = params.candidates != nullptr ? 1 : 0;
  if (has_text) job.lexical = lay_out_texts(params.text, table.lexical.data(), layout);
  job.queries = layout.copy_rows(params.queries, has_guest || has_text ? 0 : n, table.dim);
  job.floors = layout.copy(params.floors, n);
  job.strict = layout.copy(params.strict, n);
  job.depths = layout.copy(params.depths, n);
  auto const* const kept = static_cast<KeptLists const*>(params.kept.lists);
  std::uint32_t const* const kept_places = layout.copy(params.kept.places, kept != nullptr ? n : 0);
  places.input_bytes = layout.bytes();

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
  job.capacity = params.capacity;
  job.room = params.room;
  job.most_entries = params.most_entries;
  job.most_samples = params.most_samples;

  job.first_visits = layout.room<Visit>(batch.n_first);
  job.rest_visits = layout.room<Visit>(batch.n_rest);
  job.wide_visits = layout.room<Visit>(batch.n_wide);
  job.plane_queries = layout.room<std::uint8_t>(std::size_t{batch.n_plane_queries} *
                                                job.plane_chunks * kChunkBytes);
  job.inverse_query_norms = layout.room<float>(n);
  job.query_scales = layout.room<float>(n);
  job.bounds = layout.room<QueryBound>(n);
  job.guesses = layout.room<float>(n);
  job.cuts = layout.room<float>(n);
  job.counts = layout.room<std::uint32_t>(n);
  job.tickets = layout.room<std::uint32_t>(n);
  job.samples = layout.room<std::uint32_t>(n * params.most_samples);
  job.candidates = layout.room<std::uint64_t>(n * params.room);
  bool const has_shares = !has_text && has_shared_queries(params, table.device);
  job.shares = layout.room<std::uint64_t>(has_shares ? n * params.most_entries : 0);
  job.lexical.norms = layout.room<float>(params.text.scales.n * kNormLengths);
  places.all_bytes = layout.bytes();
  return places;
}

void run_search(SearchParams const& params) {
  auto const& table = *static_cast<ColumnTable const*>(params.table);
  std::size_t const n = params.batch.n_queries;
  if (n == 0) return;
  DeviceScope const device_scope(table.device);
  Scanner const& scanner = Scanner::of_device(table.device, params.plane, params.kernels);
  Places places = lay_out(params, table, nullptr, nullptr);
  WorkspacePool& pool = WorkspacePool::of_device(table.device);
  WorkspacePool::Loan workspace = pool.borrow();
  // Rounded up, so that a little larger batch has room already.
  workspace.reserve({std::bit_ceil(places.input_bytes), std::bit_ceil(places.result_bytes)},
                    places.all_bytes);
  std::uint8_t* const memory = workspace->memory.data();
  places = lay_out(params, table, workspace->input.data(), memory);
  std::memcpy(workspace->job.on_host(), &places.job, sizeof places.job);
  cudaStream_t const stream = workspace->stream;
  GraphKey const key = graph_key(params);
  auto const copy_in = [&] {
    // All of the results go back, also what no row of a reply fills.
    check(cudaMemsetAsync(memory + places.result_begin, 0, places.result_bytes, stream));
    check(cudaMemcpyAsync(memory, workspace->input.data(), places.input_bytes,
                          cudaMemcpyHostToDevice, stream));
  };
  auto const copy_out = [&] {
    check(cudaMemcpyAsync(workspace->results.data(), memory + places.result_begin,
                          places.result_bytes, cudaMemcpyDeviceToHost, stream));
  };
  if (key.has_guest) wait_for_guest(params.guest.gate, stream);
  if (params.times == nullptr) {
    // First: where this fails, no copy reads memory that another search may have by then.
    cudaGraphExec_t const sequence = recorded_sequence(*workspace, key, scanner);
    copy_in();
    check(cudaGraphLaunch(sequence, stream));
    copy_out();
    check(cudaStreamSynchronize(stream));
  } else {
    KernelTimer timer(*params.times, stream);
    copy_in();
    timer.add("copy in", 0);
    run_sequence(*workspace, key, scanner, &timer);
    copy_out();
    timer.add("copy out", 0);
    check(cudaStreamSynchronize(stream));
    timer.read();
  }

  // Where results lie on the device, they lie on the host behind the beginning of its block.
  DenseJob const& job = places.job;
  auto const on_host = [&]<typename T>(T* at) {
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    std::uint8_t const* const begin = memory + places.result_begin;
    return reinterpret_cast<T const*>(workspace->results.data() + (place - begin));
  };
  if (params.candidates != nullptr) {
    check(cudaMemcpy(params.candidates, job.candidates, n * params.room * sizeof(std::uint64_t),
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
