#include "engine/evidence/surroundings.hpp"

#include <algorithm>

#include "engine/lexical/column.hpp"

namespace hyrecall {
namespace {

// A posting is read in a few ns, a row is searched in a list in some tens.
constexpr std::size_t kPostingsALook = 8;

struct ThreadRow {
  PlaceKey key;
  DocRef doc;
};

// The live rows of a thread in their order, whatever their segments.
void live_rows(Snapshot const& snapshot, SnapshotThreads const& threads, std::uint32_t thread,
               std::vector<ThreadRow>& out) {
  out.clear();
  std::span<SnapshotThreads::Part const> const parts = threads.parts(thread);
  for (SnapshotThreads::Part const& part : parts) {
    ThreadTable const& table = threads.table(part.segment);
    LiveSet const& live = snapshot.segments[part.segment]->live();
    for (Row const row : table.rows(part.thread)) {
      if (live[row]) out.push_back({table.key(row), {part.segment, row}});
    }
  }
  if (parts.size() > 1) {
    std::sort(out.begin(), out.end(),
              [](ThreadRow const& a, ThreadRow const& b) { return a.key < b.key; });
  }
}

struct Member {
  std::uint32_t thread;
  std::uint32_t doc;  // index into the pool
};

// The documents of a pool that are in a thread, by thread.
std::vector<Member> members_of(SnapshotThreads const& threads, QueryCandidates const& pool) {
  std::vector<Member> out;
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc) {
    std::uint32_t const thread = threads.of(pool.docs[doc].doc);
    if (thread != kNone32) out.push_back({thread, doc});
  }
  std::sort(out.begin(), out.end(), [](Member const& a, Member const& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.doc < b.doc;
  });
  return out;
}

// Calls f(thread, its members) for each thread.
template <typename F>
void for_each_thread(std::span<Member const> members, F&& f) {
  for (std::size_t begin = 0; begin < members.size();) {
    std::size_t end = begin + 1;
    while (end < members.size() && members[end].thread == members[begin].thread) ++end;
    f(members[begin].thread, members.subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace

void count_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   std::span<ScopeRows const> scope,
                   std::span<std::span<LeafPostings const> const> postings,
                   QueryStatistics& statistics) {
  for (std::uint32_t s = 0; s < scope.size(); ++s) {
    for (std::uint32_t const cell : scope[s].cells) {
      ThreadText const& one = threads.cell(column, s, cell);
      statistics.n_threads += one.n_docs;
      statistics.thread_length += one.total_length;
    }
  }
  std::size_t const n_leaves = statistics.doc_freqs.size();
  statistics.thread_freqs = QueryStatistics::DocFreqs(n_leaves, 0);
  std::vector<std::uint64_t> seen((threads.size() + 63) / 64);
  for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
    std::fill(seen.begin(), seen.end(), 0);
    std::int64_t count = 0;
    for (std::uint32_t s = 0; s < scope.size(); ++s) {
      if (postings[s].empty()) continue;
      LeafPostings const& found = postings[s][leaf];
      LiveSet const& live = snapshot.segments[s]->live();
      found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t) {
        if (!live[row]) return;
        std::uint32_t const thread = threads.of({s, row});
        if (thread == kNone32) return;
        std::uint64_t& word = seen[thread / 64];
        std::uint64_t const bit = std::uint64_t{1} << (thread % 64);
        count += (word & bit) == 0 ? 1 : 0;
        word |= bit;
      });
    }
    statistics.thread_freqs[leaf] = count;
  }
}

void add_surroundings(Snapshot const& snapshot, SnapshotThreads const& threads,
                      std::size_t n_distances, std::size_t n_arms, QueryCandidates& pool) {
  PoolEvidence& evidence = pool.evidence.emplace();
  std::size_t const n_found = pool.docs.size();
  evidence.n_found = n_found;
  struct Link {
    std::uint32_t from;
    std::uint32_t slot;
    std::uint32_t to;
  };
  std::vector<Link> links;
  std::vector<ThreadRow> rows;
  std::vector<std::uint32_t> index_of;  // of each row of the thread, kNone32 = not in the pool
  std::vector<std::size_t> ordinals;    // of the members
  std::vector<Member> const members = members_of(threads, pool);
  for_each_thread(members, [&](std::uint32_t thread, std::span<Member const> own) {
    live_rows(snapshot, threads, thread, rows);
    index_of.assign(rows.size(), kNone32);
    ordinals.clear();
    for (Member const& member : own) {
      DocRef const doc = pool.docs[member.doc].doc;
      PlaceKey const key = threads.table(doc.segment).key(doc.row);
      auto const at = std::lower_bound(
          rows.begin(), rows.end(), key,
          [](ThreadRow const& row, PlaceKey const& wanted) { return row.key < wanted; });
      ordinals.push_back(static_cast<std::size_t>(at - rows.begin()));
      index_of[ordinals.back()] = member.doc;
    }
    std::vector<std::size_t> touched = ordinals;
    for (std::size_t const ordinal : ordinals) {
      std::size_t const first = ordinal - std::min(ordinal, n_distances);
      std::size_t const last = std::min(rows.size(), ordinal + n_distances + 1);
      for (std::size_t at = first; at < last; ++at) {
        if (index_of[at] != kNone32) continue;
        index_of[at] = static_cast<std::uint32_t>(pool.docs.size());
        ThreadRow const& row = rows[at];
        pool.docs.push_back({row.key.seq, row.doc});
        touched.push_back(at);
      }
    }
    for (std::size_t const at : touched) {
      for (std::size_t distance = 1; distance <= n_distances; ++distance) {
        auto const slot = static_cast<std::uint32_t>(2 * (distance - 1));
        if (at >= distance && index_of[at - distance] != kNone32)
          links.push_back({index_of[at], slot, index_of[at - distance]});
        if (at + distance < rows.size() && index_of[at + distance] != kNone32)
          links.push_back({index_of[at], slot + 1, index_of[at + distance]});
      }
    }
  });
  pool.scores.resize(pool.docs.size() * n_arms, kNoScore);
  evidence.hidden.assign(pool.docs.size(), 0);
  evidence.near.assign(pool.docs.size() * n_distances * 2, kNone32);
  for (Link const& link : links) evidence.near[link.from * n_distances * 2 + link.slot] = link.to;
}

void score_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   Bm25Query const& query, std::span<std::span<LeafPostings const> const> postings,
                   QueryCandidates const& pool, std::span<float> scores) {
  std::vector<Member> const members = members_of(threads, pool);
  std::vector<std::uint32_t> wanted;  // threads, rising
  for (Member const& member : members) {
    if (wanted.empty() || wanted.back() != member.thread) wanted.push_back(member.thread);
  }
  std::size_t const n_leaves = query.query().leaves.size();
  std::size_t n_rows = 0;
  for (std::uint32_t const thread : wanted) {
    for (SnapshotThreads::Part const& part : threads.parts(thread))
      n_rows += threads.table(part.segment).rows(part.thread).size();
  }
  std::vector<std::uint64_t> freqs(wanted.size() * n_leaves);
  for (std::uint32_t s = 0; s < postings.size(); ++s) {
    LiveSet const& live = snapshot.segments[s]->live();
    for (std::size_t leaf = 0; leaf < postings[s].size(); ++leaf) {
      LeafPostings const& found = postings[s][leaf];
      if (found.begin == found.end) continue;
      if (found.n_in_scope() <= kPostingsALook * n_rows) {
        std::uint32_t last = kNone32;
        std::uint64_t* to = nullptr;  // where the thread of the last posting is counted, or null
        found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t freq) {
          if (!live[row]) return;
          std::uint32_t const thread = threads.of({s, row});
          if (thread == kNone32) return;
          if (thread != last) {
            auto const at = std::lower_bound(wanted.begin(), wanted.end(), thread);
            bool const is_wanted = at != wanted.end() && *at == thread;
            auto const slot = static_cast<std::size_t>(at - wanted.begin());
            to = is_wanted ? &freqs[slot * n_leaves + leaf] : nullptr;
            last = thread;
          }
          if (to != nullptr) *to += freq;
        });
        continue;
      }
      for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
        for (SnapshotThreads::Part const& part : threads.parts(wanted[slot])) {
          if (part.segment != s) continue;
          for (Row const row : threads.table(s).rows(part.thread)) {
            if (live[row]) freqs[slot * n_leaves + leaf] += found.freq_of(row);
          }
        }
      }
    }
  }
  std::size_t slot = 0;
  for_each_thread(members, [&](std::uint32_t thread, std::span<Member const> own) {
    std::span<std::uint64_t const> const counts =
        std::span(freqs).subspan(slot++ * n_leaves, n_leaves);
    ThreadText const& text = threads.text(column, thread);
    if (text.n_docs == 0) return;
    auto const length =
        static_cast<std::uint32_t>(std::min<std::int64_t>(text.total_length, kNone32 - 1));
    float const norm = query.length_norm(length);
    float score = 0.0f;
    for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
      if (counts[leaf] == 0) continue;
      score += query.impact(leaf, static_cast<float>(counts[leaf]), norm);
    }
    if (!query.query().is_bag) {
      bool const matches =
          query.query().match.matches([&](std::uint32_t leaf) { return counts[leaf] > 0; });
      if (!matches) score = 0.0f;
    }
    for (Member const& member : own) scores[member.doc] = score;
  });
}

}  // namespace hyrecall
