#include "engine/shaping/shaping.hpp"

#include <algorithm>
#include <numeric>

#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "engine/shaping/on_device.hpp"
#include "engine/shaping/row_block.hpp"

namespace hyrecall {
namespace {

// Runs `body(query, begin, end)` for every query and joins what each returns, in query order.
template <typename Result, typename Body>
std::vector<Result> per_query(FusedListsView const& lists, int threads, Body const& body) {
  std::vector<Result> results(lists.n_queries());
  parallel_for(results.size(), threads, [&](int, std::size_t q) {
    results[q] = body(q, static_cast<std::size_t>(lists.offsets[q]),
                      static_cast<std::size_t>(lists.offsets[q + 1]));
  });
  return results;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append(Selected& to, std::vector<std::int64_t> const& entries) {
  append(to.entries, entries);
  to.offsets.push_back(static_cast<std::int64_t>(to.entries.size()));
}

// Where the vectors of one query's list lie.
class Vectors {
 public:
  Vectors(Snapshot const& snapshot, FusedListsView const& lists, std::size_t column,
          std::size_t begin)
      : snapshot_(snapshot), lists_(lists), column_(column), begin_(begin) {}

  DenseColumn const& column_of(std::size_t i) const {
    return *snapshot_.segments[lists_.segment[begin_ + i]]->segment().p.dense[column_];
  }
  Row row_of(std::size_t i) const { return lists_.row[begin_ + i]; }
  bool has(std::size_t i) const { return column_of(i).has(row_of(i)); }

 private:
  Snapshot const& snapshot_;
  FusedListsView const& lists_;
  std::size_t column_;
  std::size_t begin_;
};

struct QueryDeduped {
  std::vector<std::int64_t> kept;
  std::vector<std::int64_t> duplicates;
  std::vector<std::int64_t> kept_for;  // first the number of each entry's cluster
};

QueryDeduped dedup_query(Snapshot const& snapshot, FusedListsView const& lists,
                         DedupParams const& params, std::size_t begin, std::size_t end) {
  std::size_t const n = end - begin;
  Vectors const vectors(snapshot, lists, params.column, begin);
  RowBlock members(n);                  // entries so far that have a vector
  std::vector<std::size_t> cluster_of;  // [members]
  std::vector<float> cosines(n);
  struct Cluster {
    std::size_t best;  // entry
    std::int64_t size;
  };
  std::vector<Cluster> clusters;
  QueryDeduped out;
  out.kept_for.reserve(n);
  auto const is_better = [&](std::size_t a, std::size_t b) {
    return !params.preference.empty() &&
           params.preference[begin + a] < params.preference[begin + b];
  };
  for (std::size_t entry = 0; entry < n; ++entry) {
    poll_interrupt();
    std::size_t cluster = clusters.size();
    if (vectors.has(entry)) {
      DenseColumn const& column = vectors.column_of(entry);
      Row const row = vectors.row_of(entry);
      members.cosines(column, row, 0, {cosines.data(), members.size()});
      for (std::size_t m = 0; m < members.size(); ++m) {
        if (is_duplicate(cosines[m], params.unit, params.threshold))
          cluster = std::min(cluster, cluster_of[m]);
      }
      members.add(column, row);
      cluster_of.push_back(cluster);
    }
    out.kept_for.push_back(static_cast<std::int64_t>(cluster));
    if (cluster == clusters.size()) {
      clusters.push_back({entry, 1});
    } else {
      Cluster& joined = clusters[cluster];
      joined.size += 1;
      if (is_better(entry, joined.best)) joined.best = entry;
    }
  }
  for (std::int64_t& entry : out.kept_for)
    entry = static_cast<std::int64_t>(begin + clusters[static_cast<std::size_t>(entry)].best);
  std::sort(clusters.begin(), clusters.end(),
            [](Cluster const& a, Cluster const& b) { return a.best < b.best; });
  for (Cluster const& cluster : clusters) {
    out.kept.push_back(static_cast<std::int64_t>(begin + cluster.best));
    out.duplicates.push_back(cluster.size - 1);
  }
  return out;
}

std::vector<double> scaled_relevance(std::span<double const> scores, RelevanceScale scale) {
  ScoreRange range;
  for (double score : scores) range.add(score);
  std::vector<double> out;
  for (double score : scores) out.push_back(relevance_of(scale, score, range));
  return out;
}

struct QueryDiversified {
  std::vector<std::int64_t> chosen;
  std::vector<double> value;
  std::vector<double> relevance;
  std::vector<double> similarity;
  std::vector<std::int64_t> nearest;
};

// An entry that waits to be chosen, with a value that its own cannot pass: what is chosen in the
// meantime can only lower it.
struct Waiting {
  double value;
  std::size_t entry;

  friend bool operator<(Waiting const& a, Waiting const& b) {  // of a heap: "is chosen later"
    return is_chosen_before(b.value, b.entry, a.value, a.entry);
  }
};

// Moves the first of a heap to its place after its value fell: half of a pop and a push.
void sink_first(std::vector<Waiting>& heap) {
  Waiting const first = heap.front();
  std::size_t at = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child] < heap[child + 1]) ++child;
    if (!(first < heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = first;
}

QueryDiversified diversify_query(Snapshot const& snapshot, FusedListsView const& lists,
                                 DiversifyParams const& params, std::size_t query,
                                 std::size_t begin, std::size_t end) {
  std::size_t const n = end - begin;
  std::size_t const n_wanted = std::min(params.n_wanted, n);
  QueryDiversified out;
  if (n_wanted == 0) return out;
  std::vector<double> const relevance =
      scaled_relevance(lists.scores.subspan(begin, n), params.scale);
  std::vector<NearestChosen> nearest(n);
  bool const is_bounded = !params.tokens.empty() && params.budgets[query] > 0;
  std::int64_t left = is_bounded ? params.budgets[query] : 0;
  Vectors const vectors(snapshot, lists, params.column, begin);
  RowBlock chosen(n_wanted);               // those with a vector
  std::vector<std::int64_t> chosen_entry;  // [chosen]
  std::vector<std::size_t> n_compared(n);  // with how many of the chosen an entry was
  std::vector<float> cosines(n_wanted);

  auto const choose = [&](std::size_t entry, double value) {
    auto const number = static_cast<std::int64_t>(begin + entry);
    if (is_bounded) left -= params.tokens[begin + entry];
    out.chosen.push_back(number);
    out.value.push_back(value);
    out.relevance.push_back(relevance[entry]);
    out.similarity.push_back(nearest[entry].similarity);
    out.nearest.push_back(nearest[entry].entry);
    if (!params.use_vectors || !vectors.has(entry)) return;
    chosen.add(vectors.column_of(entry), vectors.row_of(entry));
    chosen_entry.push_back(number);
  };
  auto const value_of = [&](std::size_t entry) {
    return mmr_value(params.relevance_weight, relevance[entry], nearest[entry].similarity);
  };
  choose(0, value_of(0));  // the first of the list, whatever the weight
  std::vector<Waiting> heap;
  heap.reserve(n);
  for (std::size_t entry = 1; entry < n; ++entry) heap.push_back({value_of(entry), entry});
  std::make_heap(heap.begin(), heap.end());
  constexpr std::size_t kStepsPerPoll = 64;  // a step takes some 200 ns, a poll 20
  for (std::size_t step = 1; out.chosen.size() < n_wanted && !heap.empty(); ++step) {
    if (step % kStepsPerPoll == 0) poll_interrupt();
    auto const [value, entry] = heap.front();
    // What does not fit now never will.
    bool const fits = !is_bounded || params.tokens[begin + entry] <= left;
    std::size_t const first = n_compared[entry];
    if (fits && first < chosen.size() && vectors.has(entry)) {
      std::span<float> const found(cosines.data(), chosen.size() - first);
      chosen.cosines(vectors.column_of(entry), vectors.row_of(entry), first, found);
      for (std::size_t i = 0; i < found.size(); ++i)
        nearest[entry].add(found[i], chosen_entry[first + i]);
      n_compared[entry] = chosen.size();
      double const now = value_of(entry);
      if (now < value) {
        heap.front().value = now;
        sink_first(heap);
        continue;
      }
    }
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    if (fits) choose(entry, value);
  }
  return out;
}

}  // namespace

Selected order_lists(FusedListsView const& lists,
                     std::span<std::span<std::int64_t const> const> ties, int threads) {
  auto const ordered = per_query<std::vector<std::int64_t>>(
      lists, threads, [&](std::size_t, std::size_t begin, std::size_t end) {
        std::vector<std::int64_t> entries(end - begin);
        std::iota(entries.begin(), entries.end(), static_cast<std::int64_t>(begin));
        std::stable_sort(entries.begin(), entries.end(), [&](std::int64_t a, std::int64_t b) {
          auto const x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
          if (lists.scores[x] != lists.scores[y]) return lists.scores[x] > lists.scores[y];
          for (auto const& tie : ties) {
            if (tie[x] != tie[y]) return tie[x] < tie[y];
          }
          return false;
        });
        return entries;
      });
  Selected out;
  for (auto const& entries : ordered) append(out, entries);
  return out;
}

Deduped dedup_lists(Snapshot const& snapshot, FusedListsView const& lists,
                    DedupParams const& params, int threads) {
  if (auto found = dedup_on_device(snapshot, lists, params)) return *std::move(found);
  auto const results =
      per_query<QueryDeduped>(lists, threads, [&](std::size_t, std::size_t begin, std::size_t end) {
        return dedup_query(snapshot, lists, params, begin, end);
      });
  Deduped out;
  for (QueryDeduped const& one : results) {
    append(out.kept, one.kept);
    append(out.duplicates, one.duplicates);
    append(out.kept_for, one.kept_for);
  }
  return out;
}

Diversified diversify_lists(Snapshot const& snapshot, FusedListsView const& lists,
                            DiversifyParams const& params, int threads) {
  if (auto found = diversify_on_device(snapshot, lists, params)) return *std::move(found);
  auto const results = per_query<QueryDiversified>(
      lists, threads, [&](std::size_t q, std::size_t begin, std::size_t end) {
        return diversify_query(snapshot, lists, params, q, begin, end);
      });
  Diversified out;
  for (QueryDiversified const& one : results) {
    append(out.chosen, one.chosen);
    append(out.value, one.value);
    append(out.relevance, one.relevance);
    append(out.similarity, one.similarity);
    append(out.nearest, one.nearest);
  }
  return out;
}

float row_cosine(DenseColumn const& query_column, Row query_row, DenseColumn const& column,
                 Row row) {
  if (!query_column.has(query_row) || !column.has(row)) return 0.0f;
  std::vector<float> const query = query_column.widen(query_row);
  float score;
  column.score(query.data(), query_column.inverse_norms[query_row], row, row + 1, &score);
  return score;
}

}  // namespace hyrecall
