// The lists of a batch's arms, joined, completed and fused on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "device/dense_device.hpp"
#include "kernels/shared/pool_job.hpp"

namespace hyrecall::device {

// An arm's lists, as PoolArm has them. An arm that scores documents keeps its lists and its vectors
// on the device.
struct PoolLists {
  PoolArmKind kind;
  KeptLists const* kept = nullptr;             // null: the lists are here
  DeviceTable const* table = nullptr;          // null: the arm scores nothing
  std::span<std::uint32_t const> first_slots;  // [n_segments] where there is no table
  std::span<std::uint32_t const> begins;       // [n_queries]
  std::span<std::uint32_t const> counts;       // [n_queries] at most kMostPoolList
  std::span<float const> scores;               // of all lists that are here
  std::span<std::int64_t const> seqs;          // likewise
  std::span<std::uint32_t const> slots;        // likewise
  std::span<PoolAnswer const> answers;         // [n_queries] kNone where there is no table
  TextQueries const* text = nullptr;           // of a lexical arm
};

struct PoolBatch {
  std::uint32_t n_queries = 0;
  std::span<PoolLists const> arms;  // 1 to kMostPoolArms: lexical ones, dense ones, listed ones
  PoolFusion fusion{};
  bool wants_pools = false;  // they come with the hits
};

// Where results lie is the library's again once they have been taken.
using TakePools = std::function<void(PoolResults const& results)>;

// Makes hits of the lists of all queries. Any number of threads at once. Throws kDeviceMemory for a
// batch that does not fit; the next call works.
void make_hits(std::string const& folder, int ordinal, PoolBatch const& batch,
               TakePools const& take);

}  // namespace hyrecall::device
