// What:   the arrays of a reply in one block on the device, for tensors of other libraries.
// In/Out: BlockParams.
// Launch: none: one copy, on a stream of its own, from pinned memory. The caller's stream waits for
//         an event behind it, so no thread of the host does.
// Cost:   the bytes at the speed of the bus; cudaMalloc and cudaFree, some 0.1 ms together.
#include <cstring>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

// A stream and the host memory that its copies read.
struct Courier {
  PinnedBytes staging;
  Stream stream = make_stream();
};

struct Block : Object {
  Block(int ordinal, std::size_t bytes) : Object(ordinal), memory(bytes) {}
  // Its own copy first, for it may be under way; cudaFree waits for what others have launched.
  ~Block() override { cudaEventSynchronize(is_filled.get()); }

  DeviceArray<std::uint8_t> memory;
  Event is_filled = make_event();
};

}  // namespace

Status create_block(BlockParams const* params, Object** out, void** data) {
  return guarded([&] {
    int const device = params->device;
    DeviceScope const device_scope(device);
    auto block = std::make_unique<Block>(device, params->bytes);
    std::unique_ptr<Courier> courier = one_of<Idle<Courier>>(device).take();
    courier->staging.reserve(params->bytes);
    for (BlockPart const& part : params->parts) {
      if (part.bytes > 0) std::memcpy(courier->staging.data() + part.begin, part.from, part.bytes);
    }
    check(cudaMemcpyAsync(block->memory.data(), courier->staging.data(), params->bytes,
                          cudaMemcpyHostToDevice, courier->stream.get()));
    check(cudaEventRecord(block->is_filled.get(), courier->stream.get()));
    one_of<Idle<Courier>>(device).give_back(std::move(courier));
    *data = block->memory.data();
    *out = block.release();
  });
}

Status wait_for_block(Object const* block, std::uint64_t stream) {
  return guarded([&] {
    auto const& held = static_cast<Block const&>(*block);
    DeviceScope const device_scope(held.device);
    check(cudaStreamWaitEvent(reinterpret_cast<cudaStream_t>(stream), held.is_filled.get()));
  });
}

}  // namespace hyrecall::cuda
