// What:   lays lists out in one block of memory, copies it to the device in one piece, runs a stage
//         on them, copies what it made back in one piece and waits once.
// In/Out: ShapeParams, checked by device/shape_device.cpp.
// Launch: one of the kernels of shape.cuh.
// Cost:   a copy each way, one launch.
// Oracle: the CPU path, bit for bit (tests/native/test_shape_device.cpp, tests/laws).
#include "kernels/cuda/api.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/shape.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

void lay_out_inputs(ShapeBatch const& batch, ShapeJob& job, BlockLayout& layout) {
  job.offsets = layout.copy(batch.offsets);
  job.segment = layout.copy(batch.segment);
  job.row = layout.copy(batch.row);
  job.threshold = batch.threshold;
  job.is_unit = batch.is_unit ? 1 : 0;
  job.relevance_weight = batch.relevance_weight;
  job.scale = batch.scale;
  job.n_wanted = batch.n_wanted;
  if (!batch.preference.empty()) job.preference = layout.copy(batch.preference);
  if (!batch.scores.empty()) job.scores = layout.copy(batch.scores);
  if (!batch.tokens.empty()) {
    job.tokens = layout.copy(batch.tokens);
    job.budgets = layout.copy(batch.budgets);
  }
}

// What a stage makes, and what it needs meanwhile.
void lay_out_made(ShapeBatch const& batch, ShapeJob& job, BlockLayout& work, BlockLayout& results) {
  std::size_t const n = batch.segment.size();
  if (batch.stage == ShapeStage::kDedup) {
    job.cluster_of = work.room<std::uint32_t>(n);
    job.best_of = work.room<std::uint32_t>(n);
    job.sizes = work.room<std::uint32_t>(n);
    job.kept_for = results.room<std::uint32_t>(n);
    job.n_alike = results.room<std::uint32_t>(n);
    return;
  }
  std::size_t const n_places = std::size_t{job.n_queries} * batch.n_wanted;
  job.entry_relevance = work.room<double>(n);
  job.entry_similarity = work.room<double>(n);
  job.entry_nearest = work.room<std::uint32_t>(n);
  job.entry_compared = work.room<std::uint32_t>(n);
  job.vectors = work.room<std::uint32_t>(n_places);
  job.counts = results.room<std::uint32_t>(job.n_queries);
  job.chosen = results.room<std::uint32_t>(n_places);
  job.values = results.room<double>(n_places);
  job.relevances = results.room<double>(n_places);
  job.similarities = results.room<double>(n_places);
  job.nearest = results.room<std::uint32_t>(n_places);
}

}  // namespace

Status shape_lists(ShapeParams const* params) {
  return guarded([params] {
    ShapeBatch const& batch = params->batch;
    auto const n = static_cast<std::uint32_t>(batch.offsets.size() - 1);
    if (n == 0) return;
    auto const& table = static_cast<ColumnTable const&>(*params->table);
    DeviceScope const device_scope(table.device);
    ShapeJob made{};
    made.n_queries = n;
    made.dim = table.dim;
    made.row_type = table.type;
    made.segments = table.segments.data();
    ShapeJob const* job = nullptr;
    Call const call(table.device, [&](Layouts& to) {
      job = to.input.room<ShapeJob>(1);
      lay_out_inputs(batch, made, to.input);
      lay_out_made(batch, made, to.work, to.results);
      to.input.write(job, made);
    });
    call.copy_in();
    bool const is_dedup = batch.stage == ShapeStage::kDedup;
    check(launch(is_dedup ? dedup_lists : diversify_lists, n, kShapeThreads,
                 is_dedup ? dedup_bytes() : mmr_bytes(), call.stream(), job));
    call.copy_out();
    call.wait();
    ShapeResults const results{call.on_host(made.kept_for),     call.on_host(made.n_alike),
                               call.on_host(made.counts),       call.on_host(made.chosen),
                               call.on_host(made.values),       call.on_host(made.relevances),
                               call.on_host(made.similarities), call.on_host(made.nearest)};
    params->take(params->context, results);
  });
}

}  // namespace hyrecall::cuda
