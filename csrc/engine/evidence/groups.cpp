#include "engine/evidence/groups.hpp"

#include <unordered_map>

#include "engine/evidence/snapshot_threads.hpp"

namespace hyrecall {

void take_hits(ReplyArrays& reply, std::vector<std::size_t> const& places,
               std::vector<std::int32_t> const& ranks, std::vector<std::int64_t> offsets) {
  std::size_t const n = reply.row.size();
  auto const take_all = [&](auto&... values) { (take_entries(values, places, n), ...); };
  take_all(reply.part, reply.segment, reply.row, reply.score, reply.arm_scores, reply.arm_ranks,
           reply.fused, reply.addends, reply.near_segment, reply.near_row);
  reply.rank.assign(ranks.begin(), ranks.end());
  reply.offsets = std::move(offsets);
}

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
      if (auto const found = members.find(of[at]); found != members.end()) {
        if (found->second.size() < params.most_members) found->second.push_back(at);
        continue;
      }
      if (n_hits == params.offset + params.limit) continue;
      ++n_hits;
      if (of[at] != kNone32) members.emplace(of[at], std::vector<std::size_t>{at});
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
  take_hits(reply, kept, ranks, std::move(offsets));
  return out;
}

}  // namespace hyrecall
