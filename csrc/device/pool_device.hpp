// The arms of a batch, searched in one submission, and the hits that their lists become.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "device/dense_device.hpp"
#include "kernels/shared/pool_job.hpp"

namespace hyrecall::device {

// An arm: what its search finds, or lists that are here.
struct PoolLists {
  PoolArmKind kind;
  DeviceTable const* table = nullptr;
  DenseSearch const* search = nullptr;   // of all queries of the batch; null: the lists are here
  std::span<std::uint8_t const> asks{};  // [n_queries] whether it asks the arm
  std::uint32_t depth = 0;               // of the search
  bool has_floor = false;
  PoolArrays here{};  // at most kMostPoolList entries a query
};

struct PoolBatch {
  std::uint32_t n_queries = 0;      // at most kMostTogether
  std::span<PoolLists const> arms;  // 1 to kMostPoolArms: lexical ones, dense ones, listed ones
  PoolFusion fusion{};
};

// Where results lie is the library's again once they have been taken. lost: queries whose search
// may lack some rows, rising; their hits mean nothing.
using TakePools =
    std::function<void(PoolResults const& results, std::span<std::uint32_t const> lost)>;

// Searches and makes hits of the lists of all queries. Any number of threads at once. Throws
// kDeviceMemory for a batch that does not fit; the next call works.
void make_hits(std::string const& folder, int ordinal, PoolBatch const& batch,
               TakePools const& take);

}  // namespace hyrecall::device
