#include <algorithm>
#include <memory>

#include "kernels/cuda/kept_lists.cuh"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

// Without memory, for the size.
std::size_t lay_out_lists(ListsParams const& params, std::uint8_t* device, KeptLists& out) {
  BlockLayout layout(nullptr, device);
  std::size_t const n = params.n_queries;
  out.scores = layout.room<float>(n * params.depth);
  out.seqs = layout.room<std::int64_t>(n * params.depth);
  out.slots = layout.room<std::uint32_t>(n * params.depth);
  bool const is_dense = params.dim > 0;
  out.queries = is_dense ? layout.room<float>(n * params.dim) : nullptr;
  out.inverse_norms = is_dense ? layout.room<float>(n) : nullptr;
  return layout.bytes();
}

}  // namespace

DeviceArray<std::uint8_t> IdleLists::take(std::size_t bytes) {
  {
    std::lock_guard const lock(mutex_);
    auto const is_less = [](auto const& a, auto const& b) { return a.bytes() < b.bytes(); };
    std::sort(idle_.begin(), idle_.end(), is_less);
    for (auto at = idle_.begin(); at != idle_.end(); ++at) {
      if (at->bytes() < bytes) continue;
      DeviceArray<std::uint8_t> found = std::move(*at);
      idle_.erase(at);
      return found;
    }
    // The batches have become larger.
    if (!idle_.empty()) idle_.pop_back();
  }
  // Some more than that, so that a little larger batch does not begin anew.
  std::size_t const room = bytes + bytes / 8;
  try {
    return DeviceArray<std::uint8_t>(room);
  } catch (CudaError const& error) {
    if (error.code != cudaErrorMemoryAllocation) throw;
    cudaGetLastError();
    clear();
    return DeviceArray<std::uint8_t>(bytes);
  }
}

void IdleLists::give_back(DeviceArray<std::uint8_t> memory) {
  std::lock_guard const lock(mutex_);
  if (idle_.size() < kMost) idle_.push_back(std::move(memory));
}

void IdleLists::clear() {
  std::lock_guard const lock(mutex_);
  idle_.clear();
}

Status create_lists(ListsParams const* params, void** out) {
  return guarded([&] {
    DeviceScope const device_scope(params->device);
    auto made = std::make_unique<KeptLists>();
    made->device = params->device;
    made->depth = params->depth;
    std::size_t const bytes = lay_out_lists(*params, nullptr, *made);
    made->memory = WorkspacePool::of_device(params->device).lists().take(bytes);
    lay_out_lists(*params, made->memory.data(), *made);
    *out = made.release();
  });
}

void destroy_lists(void* lists) {
  std::unique_ptr<KeptLists> const own(static_cast<KeptLists*>(lists));
  if (own == nullptr) return;
  guarded([&] {
    DeviceScope const device_scope(own->device);
    WorkspacePool::of_device(own->device).lists().give_back(std::move(own->memory));
  });
}

}  // namespace hyrecall::cuda
