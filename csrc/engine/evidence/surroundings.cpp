#include "engine/evidence/surroundings.hpp"

#include <algorithm>

#include "engine/lexical/column.hpp"

namespace hyrecall {
namespace {

// The thread of a posting's row is a look into memory, and so is a place in a list.
constexpr std::size_t kPostingsALook = 2;
// Up to so many rows for each of a thread's own, all between its first and last are read.
constexpr std::size_t kRowsARow = 4;
// A posting of a thread so many threads ahead is asked for.
constexpr std::size_t kSpansAhead = 8;
// Counts of fewer postings than this are not kept.
constexpr std::size_t kPostingsToKeep = 1024;
constexpr std::size_t kMostKeyBytes = 1024;

template <typename T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<char const*>(&value), sizeof value);
}

// What a count of threads depends on beside the snapshot: the column, the term, and the cells.
void name_count(std::size_t column, std::string_view term, std::span<ScopeRows const> scope,
                std::string& key) {
  key.clear();
  append_bytes(key, column);
  for (ScopeRows const& rows : scope) {
    std::size_t n_runs = 0;
    std::size_t const at = key.size();
    append_bytes(key, n_runs);
    for (std::size_t i = 0; i < rows.cells.size() && key.size() <= kMostKeyBytes;) {
      std::size_t end = i + 1;
      while (end < rows.cells.size() && rows.cells[end] == rows.cells[end - 1] + 1) ++end;
      append_bytes(key, rows.cells[i]);
      append_bytes(key, rows.cells[end - 1]);
      i = end;
      ++n_runs;
    }
    key.replace(at, sizeof n_runs, reinterpret_cast<char const*>(&n_runs), sizeof n_runs);
  }
  key.append(term);
}

// The threads that hold a leaf.
std::int64_t count_leaf(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t leaf,
                        std::span<std::span<LeafPostings const> const> postings,
                        std::vector<std::uint64_t>& seen) {
  seen.assign((threads.size() + 63) / 64, 0);
  std::int64_t count = 0;
  for (std::uint32_t s = 0; s < postings.size(); ++s) {
    if (postings[s].empty()) continue;
    LeafPostings const& found = postings[s][leaf];
    if (found.begin == found.end) continue;
    SegmentView const& view = *snapshot.segments[s];
    ThreadTable const& table = threads.table(s);
    NumberedThreads const& numbered = threads.numbered(s);
    std::uint32_t last = kNone32;
    auto const count_row = [&](Row row) {
      std::uint32_t const own = table.thread_of(row);
      if (own == last || own == kNone32) return;
      last = own;
      std::uint32_t const thread = numbered.number(own);
      std::uint64_t& word = seen[thread / 64];
      std::uint64_t const bit = std::uint64_t{1} << (thread % 64);
      count += (word & bit) == 0 ? 1 : 0;
      word |= bit;
    };
    if (view.n_dead() == 0) {
      found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t) { count_row(row); });
    } else {
      LiveSet const& live = view.live();
      found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t) {
        if (live[row]) count_row(row);
      });
    }
  }
  return count;
}

// The live rows of a thread in their order, as own.rows, for a thread of several segments;
// own.keyed has their keys.
void join_rows(Snapshot const& snapshot, SnapshotThreads const& threads, PoolThreads& own) {
  own.keyed.clear();
  for (SnapshotThreads::Part const& part : own.found) {
    ThreadTable const& table = threads.table(part.segment);
    LiveSet const& live = snapshot.segments[part.segment]->live();
    for (Row const row : table.rows(part.thread)) {
      if (live[row]) own.keyed.push_back({table.key(row), {part.segment, row}});
    }
  }
  std::sort(own.keyed.begin(), own.keyed.end(),
            [](ThreadRow const& a, ThreadRow const& b) { return a.key < b.key; });
  own.rows.clear();
  for (ThreadRow const& row : own.keyed) own.rows.push_back(row.doc);
}

// The same of one segment; own.ordinals says which place has which row.
void take_rows(Snapshot const& snapshot, SnapshotThreads const& threads, SnapshotThreads::Part part,
               PoolThreads& own) {
  SegmentView const& view = *snapshot.segments[part.segment];
  std::span<Row const> const all = threads.table(part.segment).rows(part.thread);
  own.rows.clear();
  own.ordinals.assign(all.size(), kNone32);
  bool const is_whole = view.n_dead() == 0;
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (!is_whole && !view.live()[all[place]]) continue;
    own.ordinals[place] = static_cast<std::uint32_t>(own.rows.size());
    own.rows.push_back({part.segment, all[place]});
  }
}

// Where a document stands among own.rows.
std::uint32_t ordinal_of(SnapshotThreads const& threads, PoolThreads const& own, DocRef doc) {
  ThreadTable const& table = threads.table(doc.segment);
  if (own.found.size() == 1) return own.ordinals[table.place_of(doc.row)];
  PlaceKey const key = table.key(doc.row);
  auto const at = std::lower_bound(
      own.keyed.begin(), own.keyed.end(), key,
      [](ThreadRow const& row, PlaceKey const& wanted) { return row.key < wanted; });
  return static_cast<std::uint32_t>(at - own.keyed.begin());
}

// Puts the rows up to n_distances places away from own.listed into the pool; own.touched gets them
// and own.listed. row_at: the document of an ordinal.
template <typename RowAt>
void add_near(std::size_t n_rows, std::size_t n_distances, RowAt&& row_at, QueryCandidates& pool,
              PoolThreads& own) {
  own.touched.clear();
  std::size_t next = 0;  // the first ordinal that no window so far has
  for (std::size_t i = 0; i < own.listed.size(); ++i) {
    std::size_t const ordinal = own.listed[i].ordinal;
    std::size_t const end = std::min(n_rows, ordinal + n_distances + 1);
    for (std::size_t at = std::max(next, ordinal - std::min(ordinal, n_distances)); at < end;
         ++at) {
      if (at == ordinal) {
        own.touched.push_back(own.listed[i]);
      } else if (i + 1 < own.listed.size() && own.listed[i + 1].ordinal == at) {
        break;  // its own window begins before it
      } else {
        auto const ordinal_here = static_cast<std::uint32_t>(at);
        own.touched.push_back({ordinal_here, static_cast<std::uint32_t>(pool.docs.size())});
        pool.docs.push_back({0, row_at(at)});
      }
      next = at + 1;
    }
  }
  std::vector<std::uint32_t>& near = pool.evidence->near;
  near.resize(pool.docs.size() * n_distances * 2, kNone32);
  for (std::size_t i = 0; i < own.touched.size(); ++i) {
    PoolThreads::Touched const one = own.touched[i];
    for (std::size_t behind = i + 1; behind < own.touched.size(); ++behind) {
      PoolThreads::Touched const other = own.touched[behind];
      std::size_t const distance = other.ordinal - one.ordinal;
      if (distance > n_distances) break;
      near[(one.doc * n_distances + distance - 1) * 2 + 1] = other.doc;
      near[(other.doc * n_distances + distance - 1) * 2] = one.doc;
    }
  }
}

// Asks for where a member's thread begins, and later for its rows.
void prefetch_rows(SnapshotThreads const& threads, QueryCandidates const& pool,
                   PoolThreads::Member const& one, bool is_begin) {
  ThreadTable const& table = threads.table(pool.docs[one.doc].doc.segment);
  if (is_begin) {
    table.prefetch_begin(one.of_segment);
  } else {
    __builtin_prefetch(table.rows(one.of_segment).data() + one.place);
  }
}

// The rows near the members [begin, end) of one thread.
void surround_thread(Snapshot const& snapshot, SnapshotThreads const& threads,
                     std::size_t n_distances, std::size_t begin, std::size_t end,
                     QueryCandidates& pool, PoolThreads& own) {
  own.listed.clear();
  if (own.found.size() == 1) {
    SnapshotThreads::Part const part = own.found.front();
    if (snapshot.segments[part.segment]->n_dead() == 0) {  // places are ordinals
      std::span<Row const> const rows = threads.table(part.segment).rows(part.thread);
      for (std::size_t i = begin; i < end; ++i)
        own.listed.push_back({own.members[i].place, own.members[i].doc});
      add_near(
          rows.size(), n_distances, [&](std::size_t at) { return DocRef{part.segment, rows[at]}; },
          pool, own);
      return;
    }
    take_rows(snapshot, threads, part, own);
  } else {
    join_rows(snapshot, threads, own);
  }
  for (std::size_t i = begin; i < end; ++i) {
    std::uint32_t const doc = own.members[i].doc;
    own.listed.push_back({ordinal_of(threads, own, pool.docs[doc].doc), doc});
  }
  std::sort(own.listed.begin(), own.listed.end(),
            [](auto const& a, auto const& b) { return a.ordinal < b.ordinal; });
  add_near(own.rows.size(), n_distances, [&](std::size_t at) { return own.rows[at]; }, pool, own);
}

}  // namespace

void count_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   LexicalQuery const& query, std::span<ScopeRows const> scope,
                   std::span<std::span<LeafPostings const> const> postings, ThreadCounts& room,
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
  for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
    std::size_t n_postings = 0;
    for (auto const& leaves : postings)
      n_postings += leaves.empty() ? 0 : leaves[leaf].n_in_scope();
    room.key.clear();
    if (n_postings >= kPostingsToKeep && query.leaves[leaf].kind == Leaf::Kind::kTerm)
      name_count(column, query.leaves[leaf].terms.front(), scope, room.key);
    bool const is_kept = !room.key.empty() && room.key.size() <= kMostKeyBytes;
    std::optional<std::int64_t> const known =
        is_kept ? threads.freqs().find(room.key) : std::nullopt;
    std::int64_t const count =
        known ? *known : count_leaf(snapshot, threads, leaf, postings, room.seen);
    if (is_kept && !known) threads.freqs().keep(room.key, count);
    statistics.thread_freqs[leaf] = count;
  }
}

void add_surroundings(Snapshot const& snapshot, SnapshotThreads const& threads,
                      std::size_t n_distances, std::size_t n_arms, QueryCandidates& pool,
                      PoolThreads& own) {
  PoolEvidence& evidence = pool.evidence.emplace();
  std::size_t const n_found = pool.docs.size();
  std::size_t const n_most = n_found * (1 + 2 * n_distances);
  evidence.n_found = n_found;
  evidence.near.reserve(n_most * n_distances * 2);
  evidence.near.assign(n_found * n_distances * 2, kNone32);
  pool.docs.reserve(n_most);
  own.groups.clear();
  own.docs.clear();
  own.parts.clear();
  own.members.clear();
  for (std::uint32_t doc = 0; doc < n_found; ++doc) {
    DocRef const at = pool.docs[doc].doc;
    ThreadTable const& table = threads.table(at.segment);
    std::uint32_t const of_segment = table.thread_of(at.row);
    if (of_segment == kNone32) continue;
    own.members.push_back(
        {threads.numbered(at.segment).number(of_segment), table.place_of(at.row), doc, of_segment});
  }
  std::sort(own.members.begin(), own.members.end(), [](auto const& a, auto const& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.place < b.place;
  });
  for (std::size_t begin = 0; begin < own.members.size();) {
    std::uint32_t const thread = own.members[begin].thread;
    std::size_t end = begin + 1;
    if (begin + kSpansAhead < own.members.size())
      prefetch_rows(threads, pool, own.members[begin + kSpansAhead], true);
    if (begin + kSpansAhead / 2 < own.members.size())
      prefetch_rows(threads, pool, own.members[begin + kSpansAhead / 2], false);
    while (end < own.members.size() && own.members[end].thread == thread) ++end;
    PoolThreads::Group group{thread, static_cast<std::uint32_t>(own.docs.size()), 0,
                             static_cast<std::uint32_t>(own.parts.size()), 0};
    threads.parts(thread, own.found);
    if (n_distances > 0) {
      surround_thread(snapshot, threads, n_distances, begin, end, pool, own);
      for (PoolThreads::Touched const& one : own.touched) own.docs.push_back(one.doc);
    } else {
      for (std::size_t i = begin; i < end; ++i) own.docs.push_back(own.members[i].doc);
    }
    own.parts.insert(own.parts.end(), own.found.begin(), own.found.end());
    group.end = static_cast<std::uint32_t>(own.docs.size());
    group.end_part = static_cast<std::uint32_t>(own.parts.size());
    own.groups.push_back(group);
    begin = end;
  }
  for (std::size_t doc = n_found; doc < pool.docs.size(); ++doc) {
    DocRef const at = pool.docs[doc].doc;
    pool.docs[doc].seq = snapshot.segments[at.segment]->segment().p.seqs[at.row];
  }
  pool.scores.resize(pool.docs.size() * n_arms, kNoScore);
  evidence.hidden.assign(pool.docs.size(), 0);
}

void score_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   Bm25Query const& query, std::span<std::span<LeafPostings const> const> postings,
                   PoolThreads& own, std::span<float> scores) {
  std::size_t const n_leaves = query.query().leaves.size();
  own.freqs.assign(own.groups.size() * n_leaves, 0);
  for (std::uint32_t s = 0; s < postings.size(); ++s) {
    LiveSet const& live = snapshot.segments[s]->live();
    ThreadTable const& table = threads.table(s);
    NumberedThreads const& numbered = threads.numbered(s);
    for (std::size_t leaf = 0; leaf < postings[s].size(); ++leaf) {
      LeafPostings const& found = postings[s][leaf];
      if (found.begin == found.end) continue;
      if (found.n_in_scope() <= kPostingsALook * own.groups.size()) {
        std::uint32_t last = kNone32;
        std::uint64_t* to = nullptr;  // where the thread of the last posting is counted, or null
        found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t freq) {
          if (!live[row]) return;
          std::uint32_t const thread = table.thread_of(row);
          if (thread == kNone32) return;
          if (thread != last) {
            std::uint32_t const number = numbered.number(thread);
            auto const at =
                std::lower_bound(own.groups.begin(), own.groups.end(), number,
                                 [](PoolThreads::Group const& one, std::uint32_t wanted) {
                                   return one.thread < wanted;
                                 });
            bool const is_wanted = at != own.groups.end() && at->thread == number;
            auto const group = static_cast<std::size_t>(at - own.groups.begin());
            to = is_wanted ? &own.freqs[group * n_leaves + leaf] : nullptr;
            last = thread;
          }
          if (to != nullptr) *to += freq;
        });
        continue;
      }
      own.spans.clear();
      for (std::uint32_t group = 0; group < own.groups.size(); ++group) {
        for (std::size_t i = own.groups[group].first_part; i < own.groups[group].end_part; ++i) {
          if (own.parts[i].segment != s) continue;
          auto const [first, last] = table.span_of(own.parts[i].thread);
          own.spans.push_back({group, own.parts[i].thread, first, last});
        }
      }
      for (std::size_t i = 0; i < own.spans.size() + kSpansAhead; ++i) {
        if (i + kSpansAhead < own.spans.size())
          found.list.prefetch_run(own.spans[i + kSpansAhead].first);
        if (i < own.spans.size()) {
          Row const first = own.spans[i].first;
          found.list.prefetch_posting(found.list.run_from(first / kDocTileRows), first);
        }
        if (i < kSpansAhead) continue;
        PoolThreads::Span const& one = own.spans[i - kSpansAhead];
        std::uint64_t& freq_of_thread = own.freqs[one.group * n_leaves + leaf];
        std::span<Row const> const rows = table.rows(one.thread);
        if (one.last - one.first >= kRowsARow * rows.size()) {
          for (Row const row : rows)
            if (live[row]) freq_of_thread += found.freq_of(row);
          continue;
        }
        found.list.for_range(one.first, one.last, [&](Row row, std::uint32_t freq) {
          if (table.thread_of(row) == one.thread && live[row]) freq_of_thread += freq;
        });
      }
    }
  }
  for (std::size_t group = 0; group < own.groups.size(); ++group) {
    PoolThreads::Group const& one = own.groups[group];
    ThreadText const text = threads.text(
        column, std::span(own.parts).subspan(one.first_part, one.end_part - one.first_part));
    if (text.n_docs == 0) continue;
    std::span<std::uint64_t const> const counts =
        std::span(own.freqs).subspan(group * n_leaves, n_leaves);
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
    for (std::uint32_t i = one.begin; i < one.end; ++i) scores[own.docs[i]] = score;
  }
}

}  // namespace hyrecall
