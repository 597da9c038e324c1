// The lists of a batch as a device takes them, and its hits as a reply.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/pool_device.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"
#include "engine/segment/segment.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// An arm's lists of all queries, back to back.
struct FlatLists {
  std::vector<std::uint32_t> begins, counts, slots;
  std::vector<float> scores;
  std::vector<Seq> seqs;

  // The next query's. tiles: as segment_tiles_of() gives them.
  void add(std::span<Candidate const> list, std::span<std::uint32_t const> tiles);
  device::PoolLists view(std::span<std::uint32_t const> tiles) const;
};

// The first tile of each segment, of no table.
std::vector<std::uint32_t> segment_tiles_of(Snapshot const& snapshot);

// most_docs: in all lists of a query.
PoolFusion pool_fusion_of(BatchRequest const& request, std::size_t most_docs);

// As merge() gives it of one part, of the queries [begin, end).
ReplyArrays reply_of_pools(PoolResults const& found, PoolFusion const& fusion,
                           std::span<device::PoolLists const> arms, std::size_t begin,
                           std::size_t end, int threads);

}  // namespace hyrecall
