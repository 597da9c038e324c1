#include "engine/posting_layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "core/parallel.hpp"

namespace hyrecall {
namespace {

// A range of rows needs a place for each term while postings are laid out: ranges stay few enough
// that these are small beside the postings.
constexpr std::size_t kPostingsPerPlace = 8;

constexpr std::size_t kPostingsPerThread = 65'536;  // below this, waking a thread costs more

// Skips n numbers; reads no byte at or after `end`.
std::uint8_t const* skip_varints(std::uint8_t const* at, std::uint32_t n, std::uint8_t const* end) {
  constexpr std::uint64_t kMore = 0x8080808080808080ULL;
  if (std::uint64_t word; n <= 8 && end - at >= 8) {
    std::memcpy(&word, at, 8);
    if ((word & kMore) == 0) return at + n;
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    while ((*at++ & 0x80) != 0) {
    }
  }
  return at;
}

// Calls f(row, term, freq) for every posting of the rows, by row and term.
template <typename F>
void for_each_posting(LexicalColumn::Parts const& parts, std::size_t begin, std::size_t end,
                      F&& f) {
  std::uint8_t const* at = parts.forward_bytes.data() + parts.forward_offsets[begin];
  std::uint8_t const* const last = parts.forward_bytes.end();
  for (std::size_t row = begin; row < end; ++row) {
    std::uint8_t const* const row_end = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
    for (TermId term = 0; at != row_end;) {
      term += get_varint(at);
      std::uint32_t const freq = get_varint(at);
      at = skip_varints(at, freq, last);
      f(static_cast<Row>(row), term, freq);
    }
  }
}

// Where the rows of each range begin: ranges of about equal forward bytes.
std::vector<std::size_t> cut_rows(LexicalColumn::Parts const& parts, std::size_t n_ranges) {
  std::vector<std::size_t> cuts{0};
  std::uint64_t const n_bytes = parts.forward_bytes.size();
  for (std::size_t r = 1; r < n_ranges; ++r) {
    auto const at = std::lower_bound(parts.forward_offsets.begin(), parts.forward_offsets.end() - 1,
                                     n_bytes * r / n_ranges);
    cuts.push_back(static_cast<std::size_t>(at - parts.forward_offsets.begin()));
  }
  cuts.push_back(parts.doc_lengths.size());
  return cuts;
}

// Each range of rows first counts its postings of every term, which gives it places of its own.
void add_postings(LexicalColumn::Parts& parts, std::span<std::uint64_t const> doc_freqs,
                  int threads) {
  std::size_t const n_terms = doc_freqs.size();
  std::vector<std::uint64_t> offsets(n_terms + 1, 0);
  std::partial_sum(doc_freqs.begin(), doc_freqs.end(), offsets.begin() + 1);
  std::size_t const n_ranges =
      std::min(static_cast<std::size_t>(threads),
               1 + offsets.back() / (kPostingsPerPlace * std::max<std::size_t>(n_terms, 1)));
  std::vector<std::size_t> const cuts = cut_rows(parts, n_ranges);
  // [range][term] of all ranges but the last: postings of its rows, then where its next one goes.
  std::vector<std::vector<std::uint64_t>> next(n_ranges);
  parallel_for(n_ranges - 1, threads, [&](int, std::size_t r) {
    next[r].resize(n_terms);
    for_each_posting(parts, cuts[r], cuts[r + 1],
                     [&](Row, TermId term, std::uint32_t) { ++next[r][term]; });
  });
  next.back().assign(offsets.begin(), offsets.end() - 1);
  for (std::size_t term = 0; n_ranges > 1 && term < n_terms; ++term) {
    std::uint64_t place = offsets[term];
    for (std::size_t r = 0; r + 1 < n_ranges; ++r) place += std::exchange(next[r][term], place);
    next.back()[term] = place;
  }
  std::vector<Row> rows(offsets.back());
  std::vector<std::uint32_t> freqs(offsets.back());
  parallel_for(n_ranges, threads, [&](int, std::size_t r) {
    for_each_posting(parts, cuts[r], cuts[r + 1], [&](Row row, TermId term, std::uint32_t freq) {
      std::uint64_t const to = next[r][term]++;
      rows[to] = row;
      freqs[to] = freq;
    });
  });
  parts.posting_offsets = std::move(offsets);
  parts.posting_rows = std::move(rows);
  parts.posting_freqs = std::move(freqs);
}

// The Pareto frontier of (term_freq up, doc_length down), in order, in at most kFrontierPoints
// points: past that, neighbours join into a point that dominates both, which keeps the bound valid.
class Frontier {
 public:
  void offer(std::uint32_t term_freq, std::uint32_t doc_length) {
    if (term_freq >= kFew) {
      many_.push_back({term_freq, doc_length});
      return;
    }
    shortest_[term_freq] = std::min(shortest_[term_freq], doc_length);
    most_ = std::max(most_, term_freq);
  }

  // Appends the points of all that was offered, and begins anew.
  void take(std::vector<FrontierPoint>& out) {
    kept_.clear();
    std::sort(many_.begin(), many_.end(), [](FrontierPoint a, FrontierPoint b) {
      return a.term_freq != b.term_freq ? a.term_freq > b.term_freq : a.doc_length < b.doc_length;
    });
    for (FrontierPoint const& point : many_) keep(point);
    for (std::uint32_t freq = most_; freq > 0; --freq) keep({freq, shortest_[freq]});
    std::reverse(kept_.begin(), kept_.end());
    join_neighbours();
    for (std::size_t i = 0; i < kFrontierPoints; ++i)
      out.push_back(kept_[std::min(i, kept_.size() - 1)]);
    many_.clear();
    std::fill_n(shortest_.begin(), most_ + 1, kNone32);
    most_ = 0;
  }

 private:
  static constexpr std::uint32_t kFew = 64;  // frequencies below this have a place each

  void keep(FrontierPoint point) {
    if (kept_.empty() || point.doc_length < kept_.back().doc_length) {
      if (point.doc_length != kNone32) kept_.push_back(point);
    }
  }

  void join_neighbours() {
    while (kept_.size() > kFrontierPoints) {
      std::size_t best = 0;  // join the pair that gives away the least term frequency
      for (std::size_t i = 0; i + 1 < kept_.size(); ++i) {
        if (kept_[i + 1].term_freq - kept_[i].term_freq <
            kept_[best + 1].term_freq - kept_[best].term_freq)
          best = i;
      }
      kept_[best].term_freq = kept_[best + 1].term_freq;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

  std::array<std::uint32_t, kFew> shortest_ = [] {
    std::array<std::uint32_t, kFew> none;
    none.fill(kNone32);
    return none;
  }();
  std::uint32_t most_ = 0;           // the highest frequency that has its place
  std::vector<FrontierPoint> many_;  // points of higher frequencies
  std::vector<FrontierPoint> kept_;
};

// Rows at which a large cell begins or ends.
std::vector<Row> block_cuts(std::span<Row const> cell_begins) {
  std::vector<Row> cuts;
  for (std::size_t c = 0; c + 1 < cell_begins.size(); ++c) {
    if (cell_begins[c + 1] - cell_begins[c] < kOwnBlockRows) continue;
    if (cuts.empty() || cuts.back() != cell_begins[c]) cuts.push_back(cell_begins[c]);
    cuts.push_back(cell_begins[c + 1]);
  }
  return cuts;
}

// The blocks of some terms.
struct Blocks {
  std::vector<std::uint64_t> begins;
  std::vector<std::uint64_t> ends;  // by term, into begins
  std::vector<FrontierPoint> frontiers;

  void add_term(LexicalColumn::Parts const& parts, std::size_t term, std::span<Row const> cuts,
                Frontier& frontier) {
    std::uint64_t const last = parts.posting_offsets[term + 1];
    std::uint64_t p = parts.posting_offsets[term];
    if (last - p > kBlockSize) {
      for (auto cut = cuts.begin(); p < last;) {
        while (cut != cuts.end() && *cut <= parts.posting_rows[p]) ++cut;
        begins.push_back(p);
        std::uint64_t const full = std::min<std::uint64_t>(last, p + kBlockSize);
        for (; p < full && (cut == cuts.end() || parts.posting_rows[p] < *cut); ++p)
          frontier.offer(parts.posting_freqs[p], parts.doc_lengths[parts.posting_rows[p]]);
        frontier.take(frontiers);
      }
    }
    ends.push_back(begins.size());
  }
};

void add_blocks(LexicalColumn::Parts& parts, std::span<Row const> cell_begins, int threads) {
  std::vector<Row> const cuts = block_cuts(cell_begins);
  std::size_t const n_terms = parts.posting_offsets.size() - 1;
  std::size_t const n_groups = static_cast<std::size_t>(threads) * 4;
  std::vector<std::size_t> begins{0};  // first term of each group, which have equal postings
  for (std::size_t g = 1; g <= n_groups; ++g) {
    auto const at = std::lower_bound(parts.posting_offsets.begin(), parts.posting_offsets.end() - 1,
                                     parts.posting_offsets[n_terms] * g / n_groups);
    begins.push_back(static_cast<std::size_t>(at - parts.posting_offsets.begin()));
  }
  begins.back() = n_terms;
  std::vector<Blocks> groups(n_groups);
  parallel_for(n_groups, threads, [&](int, std::size_t g) {
    Frontier frontier;
    for (std::size_t term = begins[g]; term < begins[g + 1]; ++term)
      groups[g].add_term(parts, term, cuts, frontier);
  });
  Blocks all;
  all.ends.push_back(0);
  for (Blocks const& group : groups) {
    std::uint64_t const base = all.begins.size();
    all.begins.insert(all.begins.end(), group.begins.begin(), group.begins.end());
    for (std::uint64_t const end : group.ends) all.ends.push_back(base + end);
    all.frontiers.insert(all.frontiers.end(), group.frontiers.begin(), group.frontiers.end());
  }
  parts.block_begins = std::move(all.begins);
  parts.block_offsets = std::move(all.ends);
  parts.frontiers = std::move(all.frontiers);
}

}  // namespace

void lay_out_postings(LexicalColumn::Parts& parts, std::span<std::uint64_t const> doc_freqs,
                      std::span<Row const> cell_begins, int threads) {
  std::uint64_t const n = std::accumulate(doc_freqs.begin(), doc_freqs.end(), std::uint64_t{0});
  threads = static_cast<int>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::max(threads, 1)), 1 + n / kPostingsPerThread));
  add_postings(parts, doc_freqs, threads);
  add_blocks(parts, cell_begins, threads);
}

}  // namespace hyrecall
