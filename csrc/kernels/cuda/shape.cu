// What:   lays lists out in one block of memory, copies it to the device in one piece, runs a stage
//         on them, copies what it made back in one piece and waits once.
// In/Out: ShapeParams, checked by device/shape_device.cpp.
// Launch: one of the kernels of shape.cuh.
// Cost:   a copy each way, one launch.
// Oracle: the CPU path, bit for bit (tests/native/test_shape_device.cpp, tests/laws).
#include <bit>

#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/shape.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

struct ShapePlaces {
  std::size_t input_bytes;
  std::size_t result_begin;
  std::size_t result_bytes;
  std::size_t all_bytes;
  ShapeJob job;  // of device memory
};

void lay_out_inputs(ShapeParams const& params, ShapeJob& job, BlockLayout& layout) {
  job.offsets = layout.copy(params.offsets, std::size_t{params.n_queries} + 1);
  job.segment = layout.copy(params.segment);
  job.row = layout.copy(params.row, params.segment.n);
  job.threshold = params.threshold;
  job.is_unit = params.is_unit;
  job.relevance_weight = params.relevance_weight;
  job.scale = params.scale;
  job.n_wanted = params.n_wanted;
  if (params.preference.n > 0) job.preference = layout.copy(params.preference);
  if (params.scores.n > 0) job.scores = layout.copy(params.scores);
  if (params.tokens.n > 0) {
    job.tokens = layout.copy(params.tokens);
    job.budgets = layout.copy(params.budgets);
  }
}

// What a stage needs beside what it makes.
void lay_out_scratch(ShapeParams const& params, ShapeJob& job, BlockLayout& layout) {
  std::size_t const n = params.segment.n;
  switch (params.stage) {
    case ShapeStage::kDedup:
      job.cluster_of = layout.room<std::uint32_t>(n);
      job.best_of = layout.room<std::uint32_t>(n);
      job.sizes = layout.room<std::uint32_t>(n);
      return;
    case ShapeStage::kMmr:
      job.entry_relevance = layout.room<double>(n);
      job.entry_similarity = layout.room<double>(n);
      job.entry_nearest = layout.room<std::uint32_t>(n);
      job.entry_compared = layout.room<std::uint32_t>(n);
      job.vectors = layout.room<std::uint32_t>(std::size_t{params.n_queries} * params.n_wanted);
      return;
  }
}

void lay_out_results(ShapeParams const& params, ShapeJob& job, BlockLayout& layout) {
  std::size_t const n = params.segment.n;
  std::size_t const n_places = std::size_t{params.n_queries} * params.n_wanted;
  switch (params.stage) {
    case ShapeStage::kDedup:
      job.kept_for = layout.room<std::uint32_t>(n);
      job.n_alike = layout.room<std::uint32_t>(n);
      return;
    case ShapeStage::kMmr:
      job.counts = layout.room<std::uint32_t>(params.n_queries);
      job.chosen = layout.room<std::uint32_t>(n_places);
      job.values = layout.room<double>(n_places);
      job.relevances = layout.room<double>(n_places);
      job.similarities = layout.room<double>(n_places);
      job.nearest = layout.room<std::uint32_t>(n_places);
      return;
  }
}

// With memory, writes the job and what it brings too. The job itself stands at the beginning.
ShapePlaces lay_out_lists(ShapeParams const& params, std::uint8_t* host, std::uint8_t* device) {
  BlockLayout layout(host, device);
  ShapePlaces places{};
  ShapeJob& job = places.job;
  (void)layout.room<ShapeJob>(1);
  auto const& table = *static_cast<ColumnTable const*>(params.table);
  job.n_queries = params.n_queries;
  job.dim = table.dim;
  job.row_type = table.type;
  job.segments = table.segments.data();
  lay_out_inputs(params, job, layout);
  places.input_bytes = layout.bytes();
  lay_out_scratch(params, job, layout);
  places.result_begin = layout.bytes();
  lay_out_results(params, job, layout);
  places.result_bytes = layout.bytes() - places.result_begin;
  places.all_bytes = layout.bytes();
  layout.write_first(job);
  return places;
}

cudaError_t launch_stage(ShapeParams const& params, ShapeJob const* job, cudaStream_t stream) {
  unsigned const n = params.n_queries;
  if (params.stage == ShapeStage::kDedup)
    return launch(dedup_lists, n, kShapeThreads, dedup_bytes(), stream, job);
  return launch(diversify_lists, n, kShapeThreads, mmr_bytes(), stream, job);
}

void run_stage(ShapeParams const& params) {
  if (params.n_queries == 0) return;
  DeviceScope const device_scope(static_cast<ColumnTable const*>(params.table)->device);
  ShapePlaces places = lay_out_lists(params, nullptr, nullptr);
  WorkspacePool::Loan workspace =
      WorkspacePool::of_device(static_cast<ColumnTable const*>(params.table)->device).borrow();
  Rooms const rooms{std::bit_ceil(places.input_bytes), std::bit_ceil(places.result_bytes)};
  workspace.reserve(rooms, places.all_bytes);
  std::uint8_t* const memory = workspace->memory.data();
  places = lay_out_lists(params, workspace->input.data(), memory);
  cudaStream_t const stream = workspace->stream;
  check(cudaMemcpyAsync(memory, workspace->input.data(), places.input_bytes, cudaMemcpyHostToDevice,
                        stream));
  // What nothing fills is copied as well.
  check(cudaMemsetAsync(memory + places.result_begin, 0, places.result_bytes, stream));
  auto const* const job = reinterpret_cast<ShapeJob const*>(memory);
  check(launch_stage(params, job, stream));
  check(cudaMemcpyAsync(workspace->results.data(), memory + places.result_begin,
                        places.result_bytes, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  auto const on_host = [&]<typename T>(T* at) -> T const* {
    if (at == nullptr) return nullptr;
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    return reinterpret_cast<T const*>(workspace->results.data() +
                                      (place - (memory + places.result_begin)));
  };
  ShapeJob const& made = places.job;
  ShapeResults const results{on_host(made.kept_for),     on_host(made.n_alike),
                             on_host(made.counts),       on_host(made.chosen),
                             on_host(made.values),       on_host(made.relevances),
                             on_host(made.similarities), on_host(made.nearest)};
  params.take(params.context, results);
}

}  // namespace

Status shape_lists(ShapeParams const* params) {
  return guarded([&] { run_stage(*params); });
}

}  // namespace hyrecall::cuda
