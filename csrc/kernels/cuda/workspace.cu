#include <algorithm>
#include <bit>

#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {

void Workspace::reserve(Layouts const& sizes, bool is_short) {
  // Rounded up, so that a larger batch has room already; in few steps, as each ends recordings.
  std::size_t input_bytes = kLeastInput;
  while (input_bytes < sizes.input.bytes()) input_bytes *= 4;
  if (is_short) input_bytes = sizes.input.bytes();
  input.reserve(input_bytes);
  results.reserve(std::bit_ceil(sizes.results.bytes()));
  if (sizes.input.bytes() > device_input.bytes()) {
    graphs_.clear();
    device_input = {};  // first: the two need not exist at once
    device_input = DeviceArray<std::uint8_t>(input_bytes);
  }
  std::size_t const device_bytes = sizes.results.bytes() + sizes.work.bytes();
  if (device_bytes > memory.bytes()) {
    memory = {};
    std::size_t const step = std::max<std::size_t>(std::bit_floor(device_bytes) / 8, 1);
    std::size_t const rounded = (device_bytes + step - 1) / step * step;
    memory = DeviceArray<std::uint8_t>(is_short ? device_bytes : rounded);
  }
}

void Workspace::clear() {
  graphs_.clear();
  memory = {};
  device_input = {};
}

cudaGraphExec_t Workspace::find_graph(GraphKey const& key) {
  auto const found = graphs_.find(key);
  if (found == graphs_.end()) return nullptr;
  found->second.last_use = ++n_uses_;
  return found->second.graph.get();
}

void Workspace::keep_graph(GraphKey const& key, cudaGraphExec_t graph) {
  if (graphs_.size() >= kMostGraphs) {
    auto const oldest = std::min_element(graphs_.begin(), graphs_.end(), [](auto& a, auto& b) {
      return a.second.last_use < b.second.last_use;
    });
    graphs_.erase(oldest);
  }
  graphs_.emplace(key, Recording{CudaOwner<cudaGraphExec_t>(graph), ++n_uses_});
}

void WorkspacePool::Loan::reserve(Layouts const& sizes) {
  try {
    workspace_->reserve(sizes, false);
  } catch (CudaError const& error) {
    if (error.code != cudaErrorMemoryAllocation) throw;
    cudaGetLastError();
    pool_.wait_alone(workspace_);
    is_alone_ = true;
    workspace_->reserve(sizes, true);
  }
}

Workspace* WorkspacePool::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty() && all_.size() < kMost) {
    all_.push_back(std::make_unique<Workspace>());
    idle_.push_back(all_.back().get());
  }
  returned_.wait(lock, [&] { return !idle_.empty() && !is_alone_; });
  Workspace* const workspace = idle_.back();
  idle_.pop_back();
  return workspace;
}

void WorkspacePool::give_back(Workspace* workspace, bool was_alone) {
  {
    std::lock_guard const lock(mutex_);
    idle_.push_back(workspace);
    if (was_alone) is_alone_ = false;
  }
  returned_.notify_all();  // they wait for several things
}

void WorkspacePool::wait_alone(Workspace* own) {
  own->clear();
  std::unique_lock lock(mutex_);
  n_waiting_ += 1;
  returned_.notify_all();  // who waits for the last of the others need not wait for this one
  returned_.wait(lock, [&] { return !is_alone_; });
  is_alone_ = true;
  n_waiting_ -= 1;
  returned_.wait(lock, [&] { return all_.size() - idle_.size() == 1 + n_waiting_; });
  for (Workspace* const workspace : idle_) workspace->clear();
}

}  // namespace hyrecall::cuda
