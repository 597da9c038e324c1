#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {

Workspace::Workspace() {
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

Workspace::~Workspace() {
  forget_graphs();
  cudaStreamDestroy(stream);
}

void Workspace::reserve(Rooms const& rooms, std::size_t device_bytes) {
  if (rooms.input_bytes > input.size() || rooms.result_bytes > results.size() ||
      device_bytes > memory.bytes())
    forget_graphs();
  input.reserve(rooms.input_bytes);
  results.reserve(rooms.result_bytes);
  if (device_bytes > memory.bytes()) {
    memory = {};  // first: the two need not exist at once
    memory = DeviceArray<std::uint8_t>(device_bytes);
  }
}

void Workspace::clear() {
  forget_graphs();
  memory = {};
}

void Workspace::forget_graphs() {
  for (auto const& [key, graph] : graphs) cudaGraphExecDestroy(graph);
  graphs.clear();
}

WorkspacePool& WorkspacePool::of_device(int device) {
  // Never destroyed: CUDA may be gone before static objects are.
  static auto* const pools = new std::map<int, std::unique_ptr<WorkspacePool>>;
  static auto* const mutex = new std::mutex;
  std::lock_guard const lock(*mutex);
  auto& pool = (*pools)[device];
  if (pool == nullptr) pool = std::make_unique<WorkspacePool>();
  return *pool;
}

Workspace* WorkspacePool::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty() && all_.size() < kMost) {
    all_.push_back(std::make_unique<Workspace>());
    idle_.push_back(all_.back().get());
  }
  returned_.wait(lock, [&] { return !idle_.empty(); });
  Workspace* const workspace = idle_.back();
  idle_.pop_back();
  return workspace;
}

void WorkspacePool::give_back(Workspace* workspace) {
  {
    std::lock_guard const lock(mutex_);
    idle_.push_back(workspace);
  }
  returned_.notify_one();
}

void WorkspacePool::clear_idle() {
  std::lock_guard const lock(mutex_);
  for (Workspace* const workspace : idle_) workspace->clear();
}

}  // namespace hyrecall::cuda
