#include "engine/evidence/groups.hpp"

#include <algorithm>
#include <unordered_map>

#include "engine/evidence/snapshot_threads.hpp"

namespace hyrecall {
namespace {

// Keeps some entries of an array that has `width` values for each of n; rising places.
template <typename Values>
void keep(Values& values, std::vector<std::size_t> const& places, std::size_t n) {
  if (values.empty()) return;
  std::size_t const width = values.size() / n;
  auto to = values.begin();
  for (std::size_t const place : places)
    to = std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(place * width), width, to);
  values.resize(places.size() * width);
}

}  // namespace

ThreadMembers group_by_thread(Snapshot const& snapshot, GroupParams const& params,
                              ReplyArrays& reply) {
  SnapshotThreads const& threads = threads_of(snapshot);
  ThreadMembers out;
  std::size_t const n = reply.row.size();
  std::vector<std::size_t> kept;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> ranks;
  std::vector<std::uint32_t> of(n);
  for (std::size_t at = 0; at < n; ++at) of[at] = threads.of({reply.segment[at], reply.row[at]});
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> members;  // of hits on the page
  for (std::size_t query = 0; query + 1 < reply.offsets.size(); ++query) {
    auto const begin = static_cast<std::size_t>(reply.offsets[query]);
    auto const end = static_cast<std::size_t>(reply.offsets[query + 1]);
    members.clear();
    std::size_t const first = kept.size();
    std::size_t n_hits = 0;
    for (std::size_t at = begin; at < end; ++at) {
      bool const is_alone = of[at] == kNone32;
      if (!is_alone) {
        if (auto const found = members.find(of[at]); found != members.end()) {
          if (found->second.size() < params.most_members) found->second.push_back(at);
          continue;
        }
      }
      if (n_hits == params.offset + params.limit) continue;
      ++n_hits;
      if (!is_alone) members.emplace(of[at], std::vector<std::size_t>{at});
      if (n_hits <= params.offset) continue;
      kept.push_back(at);
      ranks.push_back(static_cast<std::int32_t>(n_hits));
    }
    for (std::size_t i = first; i < kept.size(); ++i) {
      std::size_t const hit = kept[i];
      std::vector<std::size_t> const alone{hit};
      for (std::size_t const at : of[hit] == kNone32 ? alone : members.at(of[hit])) {
        out.segment.push_back(reply.segment[at]);
        out.row.push_back(reply.row[at]);
        out.score.push_back(reply.score[at]);
      }
      out.offsets.push_back(static_cast<std::int64_t>(out.row.size()));
    }
    offsets.push_back(static_cast<std::int64_t>(kept.size()));
  }
  if (n != 0) {
    keep(reply.part, kept, n);
    keep(reply.segment, kept, n);
    keep(reply.row, kept, n);
    keep(reply.rank, kept, n);
    keep(reply.score, kept, n);
    keep(reply.arm_scores, kept, n);
    keep(reply.arm_ranks, kept, n);
    keep(reply.fused, kept, n);
    keep(reply.addends, kept, n);
    keep(reply.near_segment, kept, n);
    keep(reply.near_row, kept, n);
  }
  std::copy(ranks.begin(), ranks.end(), reply.rank.begin());
  reply.offsets = std::move(offsets);
  return out;
}

}  // namespace hyrecall
