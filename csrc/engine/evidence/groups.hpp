// Cuts the whole lists of a reply: the best row of each thread as its hit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

// Leaves some entries of a reply, in an order of which these are the offsets and ranks.
void take_hits(ReplyArrays& reply, std::vector<std::size_t> const& places,
               std::vector<std::int32_t> const& ranks, std::vector<std::int64_t> offsets);

// Takes entries of an array that has `width` values for each of n.
template <typename Values>
void take_entries(Values& values, std::vector<std::size_t> const& places, std::size_t n) {
  if (values.empty()) return;
  std::size_t const width = values.size() / n;
  Values taken;
  for (std::size_t const place : places)
    taken.insert(taken.end(), &values[place * width], &values[place * width] + width);
  values = std::move(taken);
}

}  // namespace hyrecall
