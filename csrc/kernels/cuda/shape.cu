// What:   lays lists out in one block of memory, copies it to the device in one piece, runs a stage
//         on them, copies what it made back in one piece and waits once.
// In/Out: ShapeParams, checked by device/shape_device.cpp.
// Launch: one of the kernels of shape.cuh.
// Cost:   a copy each way, one launch.
// Oracle: the CPU path, bit for bit (tests/native/test_shape_device.cpp, tests/laws).
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/shape.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

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

cudaError_t launch_stage(ShapeParams const& params, ShapeJob const* job, cudaStream_t stream) {
  unsigned const n = params.n_queries;
  if (params.stage == ShapeStage::kDedup)
    return launch(dedup_lists, n, kShapeThreads, dedup_bytes(), stream, job);
  return launch(diversify_lists, n, kShapeThreads, mmr_bytes(), stream, job);
}

void run_stage(ShapeParams const& params) {
  if (params.n_queries == 0) return;
  auto const& table = *static_cast<ColumnTable const*>(params.table);
  DeviceScope const device_scope(table.device);
  ShapeJob made{};
  made.n_queries = params.n_queries;
  made.dim = table.dim;
  made.row_type = table.type;
  made.segments = table.segments.data();
  ShapeJob const* job = nullptr;
  Call call(table.device, [&](Layouts& to) {
    job = to.input.room<ShapeJob>(1);
    lay_out_inputs(params, made, to.input);
    lay_out_scratch(params, made, to.work);
    lay_out_results(params, made, to.results);
    to.input.write(job, made);
  });
  call.copy_in();
  check(launch_stage(params, job, call.stream()));
  call.copy_out();
  call.wait();
  ShapeResults const results{call.on_host(made.kept_for),     call.on_host(made.n_alike),
                             call.on_host(made.counts),       call.on_host(made.chosen),
                             call.on_host(made.values),       call.on_host(made.relevances),
                             call.on_host(made.similarities), call.on_host(made.nearest)};
  params.take(params.context, results);
}

}  // namespace

Status shape_lists(ShapeParams const* params) {
  return guarded([&] { run_stage(*params); });
}

}  // namespace hyrecall::cuda
