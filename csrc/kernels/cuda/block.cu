// What:   the arrays of a reply in one block on the device, for tensors of other libraries.
// In/Out: BlockParams.
// Launch: none: one copy, on a stream of its own, from pinned memory. The caller's stream waits for
//         an event behind it, so no thread of the host does.
// Cost:   the bytes at the speed of the bus; cudaMalloc and cudaFree, some 0.1 ms together.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

// A stream and the host memory that its copies read.
struct Courier {
  Courier() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Courier() { cudaStreamDestroy(stream); }
  Courier(Courier const&) = delete;
  Courier& operator=(Courier const&) = delete;

  cudaStream_t stream = nullptr;
  PinnedBytes staging;
};

// Couriers by device. One whose copy is not done keeps its memory until it is.
class IdleCouriers {
 public:
  static IdleCouriers& all() {
    static auto* const idle = new IdleCouriers;  // never destroyed: CUDA may be gone before it
    return *idle;
  }

  // Of the current device.
  std::unique_ptr<Courier> take(int device) {
    std::unique_ptr<Courier> found;
    {
      std::lock_guard const lock(mutex_);
      auto& own = idle_[device];
      auto const is_done = [](auto const& one) {
        return cudaStreamQuery(one->stream) == cudaSuccess;
      };
      auto const at = std::find_if(own.begin(), own.end(), is_done);
      if (at != own.end()) {
        found = std::move(*at);
        own.erase(at);
      }
    }
    cudaGetLastError();  // that a stream is busy is no error
    return found != nullptr ? std::move(found) : std::make_unique<Courier>();
  }
  void give_back(int device, std::unique_ptr<Courier> courier) {
    std::lock_guard const lock(mutex_);
    idle_[device].push_back(std::move(courier));
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Courier>>> idle_;
};

struct Block {
  Block(int device_, std::size_t bytes) : device(device_), memory(bytes) {
    check(cudaEventCreateWithFlags(&is_filled, cudaEventDisableTiming));
  }
  // Its own copy first, for it may be under way; cudaFree waits for what others have launched.
  ~Block() {
    cudaEventSynchronize(is_filled);
    cudaEventDestroy(is_filled);
  }
  Block(Block const&) = delete;
  Block& operator=(Block const&) = delete;

  int const device;
  DeviceArray<std::uint8_t> memory;
  cudaEvent_t is_filled = nullptr;
};

}  // namespace

Status create_block(BlockParams const* params, void** out, void** data) {
  return guarded([&] {
    int const device = params->device;
    DeviceScope const device_scope(device);
    auto block = std::make_unique<Block>(device, params->bytes);
    std::unique_ptr<Courier> courier = IdleCouriers::all().take(device);
    courier->staging.reserve(params->bytes);
    for (std::size_t i = 0; i < params->parts.n; ++i) {
      BlockPart const& part = params->parts.data[i];
      if (part.bytes > 0) std::memcpy(courier->staging.data() + part.begin, part.from, part.bytes);
    }
    check(cudaMemcpyAsync(block->memory.data(), courier->staging.data(), params->bytes,
                          cudaMemcpyHostToDevice, courier->stream));
    check(cudaEventRecord(block->is_filled, courier->stream));
    IdleCouriers::all().give_back(device, std::move(courier));
    *data = block->memory.data();
    *out = block.release();
  });
}

Status wait_for_block(void const* block, std::uint64_t stream) {
  return guarded([&] {
    auto const& held = *static_cast<Block const*>(block);
    DeviceScope const device_scope(held.device);
    check(cudaStreamWaitEvent(reinterpret_cast<cudaStream_t>(stream), held.is_filled));
  });
}

void destroy_block(void* block) {
  destroy_on_device(static_cast<Block*>(block), [](Block const& one) { return one.device; });
}

}  // namespace hyrecall::cuda
