// The lists of an arm, which stay on the device from its search until hits are made of them.
#pragma once

#include <mutex>
#include <vector>

#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {

// Query q has the entries from q x depth on. Where the arm is dense, its queries stay too, of those
// that are searched for.
struct KeptLists {
  int device;
  std::uint32_t depth;
  DeviceArray<std::uint8_t> memory;
  float* scores;         // [n_queries, depth]
  std::int64_t* seqs;    // likewise
  std::uint32_t* slots;  // likewise
  float* queries;        // [n_queries, dim]; null: the arm is lexical
  float* inverse_norms;  // [n_queries] likewise
};

// Memory that lists of a device have left, for those to come. WorkspacePool::of_device has it.
class IdleLists {
 public:
  // At least so many bytes, on the current device.
  DeviceArray<std::uint8_t> take(std::size_t bytes);
  void give_back(DeviceArray<std::uint8_t> memory);
  void clear();

 private:
  // What a few searches at a time need of a few arms each.
  static constexpr std::size_t kMost = 8;

  std::mutex mutex_;
  std::vector<DeviceArray<std::uint8_t>> idle_;
};

Status create_lists(ListsParams const* params, void** out);
void destroy_lists(void* lists);

}  // namespace hyrecall::cuda
