// Takes the best row of each thread of a list as its hit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/request/reply.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

struct GroupParams {
  std::size_t offset = 0, limit = 0;  // the page of the hits
  std::size_t most_members = 0;       // of a hit
};

// The best rows of the threads of hits, each hit itself first.
struct ThreadMembers {
  std::vector<std::int64_t> offsets{0};  // [n_hits + 1]
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;
  std::vector<double> score;
};

// Leaves the hits on the page in a reply that has whole lists, and returns their members. A row in
// no thread is a hit by itself. The segments must have threads.
ThreadMembers group_by_thread(Snapshot const& snapshot, GroupParams const& params,
                              ReplyArrays& reply);

}  // namespace hyrecall
