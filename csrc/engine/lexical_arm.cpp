#include "engine/lexical_arm.hpp"

#include <algorithm>
#include <bit>

namespace hyrecall {
namespace {

constexpr Row kWindowRows =
    1 << 14;  // 64 KiB of scores: they stay in L1/L2 while terms come one by one
constexpr std::size_t kTabulateFrom = 1024;    // postings from which a table of length norms pays
constexpr std::uint32_t kTableLengths = 4096;  // longer documents are rare: computed one by one
// term_freq / (term_freq + norm) > 2^-55 (norm <= k1 x n_docs), so no impact of such a weight is 0.
constexpr float kPositiveWeight = 0x1p-60f;

// Scores that are never negative order as their bits do; an integer maximum vectorises, a float one
// does not.
float top_score(std::span<float const> scores) {
  std::int32_t top = 0;
  for (float score : scores) top = std::max(top, std::bit_cast<std::int32_t>(score));
  return std::bit_cast<float>(top);
}

// Rows of a window that have scores, and what to do with them.
class Window {
 public:
  Window(SegmentView const& view, std::uint32_t segment, LexicalRequest const& arm,
         Bm25Query const& query, TopK& best)
      : seqs_(view.segment().p.seqs), segment_(segment), arm_(arm), query_(query), best_(best) {}

  void offer(Row row, float score) {
    if (score < best_.threshold() || !arm_.floor.passes(score)) return;
    best_.offer({score, seqs_[row], segment_, row});
  }

  // Offers the selected rows of [base, end) with a score; tile is the first selected tile that may
  // touch it.
  void collect(Row base, Row end, std::span<SelectedTile const> tiles, std::size_t& tile,
               LexicalScratch const& scratch, std::size_t n_words) {
    bool const by_score = query_.is_positive();
    while (tile < tiles.size() && (tiles[tile].tile + 1) * kTileRows <= base) ++tile;
    for (std::size_t t = tile; t < tiles.size() && tiles[t].tile * kTileRows < end; ++t) {
      Row const first = tiles[t].tile * kTileRows;
      Row const from = std::max(first, base);
      Row const to = std::min(first + kTileRows, end);
      if (by_score) {
        float const top = top_score({scratch.scores.data() + (from - base), to - from});
        if (top <= 0.0f || top < best_.threshold()) continue;
      }
      TileMask const inside = TileMask::range(from - first, to - first);
      for_each_bit(tiles[t].mask & inside, [&](Row i) {
        Row const row = first + i;
        float const score = scratch.scores[row - base];
        if (by_score && score <= 0.0f) return;
        if (n_words > 0 && !matches(scratch.present.data() + (row - base) * n_words)) return;
        offer(row, score);
      });
    }
  }

 private:
  bool matches(std::uint64_t const* present) const {
    if (query_.query().is_bag) return *present != 0;
    return query_.query().match.matches(
        [&](std::uint32_t leaf) { return (present[leaf / 64] >> (leaf % 64) & 1) != 0; });
  }

  Buffer<Seq> const& seqs_;
  std::uint32_t segment_;
  LexicalRequest const& arm_;
  Bm25Query const& query_;
  TopK& best_;
};

bool is_selected(std::span<SelectedTile const> tiles, std::size_t& tile, Row row) {
  while (tile < tiles.size() && tiles[tile].tile < row / kTileRows) ++tile;
  return tile < tiles.size() && tiles[tile].tile == row / kTileRows &&
         tiles[tile].mask.test(row % kTileRows);
}

// One leaf needs no accumulator, and a block whose bound stays below the threshold need not be
// read.
template <typename Impact>
void scan_single_leaf(LexicalColumn const& column, Bm25Query const& query, Impact impact,
                      LeafPostings const& postings, ScopeRows const& scope,
                      std::span<SelectedTile const> tiles, TopK const& best, Window& window) {
  bool const has_blocks = postings.term != kNone32 && query.is_positive();
  LexicalColumn::Parts const& parts = column.parts();
  std::uint64_t const first = has_blocks ? parts.posting_offsets[postings.term] : 0;
  std::uint64_t block = has_blocks ? parts.block_offsets[postings.term] : 0;
  std::uint64_t const last_block = has_blocks ? parts.block_offsets[postings.term + 1] : 0;
  std::size_t tile = 0;
  std::size_t p = 0;
  std::span<Row const> const rows = postings.rows;
  for (RowRange const& range : scope.ranges) {
    p = static_cast<std::size_t>(
        std::lower_bound(rows.begin() + static_cast<std::ptrdiff_t>(p), rows.end(), range.begin) -
        rows.begin());
    while (p < rows.size() && rows[p] < range.end) {
      std::size_t stop = rows.size();
      if (block < last_block) {
        while (block + 1 < last_block && parts.block_begins[block + 1] <= first + p) ++block;
        if (block + 1 < last_block) stop = parts.block_begins[block + 1] - first;
        float const bound =
            query.bound(0, {parts.frontiers.data() + block * kFrontierPoints, kFrontierPoints});
        if (bound < best.threshold()) {
          p = stop;
          continue;
        }
      }
      for (; p < stop && rows[p] < range.end; ++p) {
        if (!is_selected(tiles, tile, rows[p])) continue;
        float const norm = query.length_norm(column.doc_length(rows[p]));
        // From +0, as the sum over several leaves is.
        window.offer(rows[p], 0.0f + impact(static_cast<float>(postings.freqs[p]), norm));
      }
    }
  }
}

// Adds a leaf's impacts to the scores of the rows [base, end), from posting p on; gives the posting
// after them.
template <typename Impact>
std::size_t add_impacts(LexicalColumn const& column, Bm25Query const& query, Impact impact,
                        LeafPostings const& list, std::size_t p, Row base, Row end, float* scores) {
  for (; p < list.rows.size() && list.rows[p] < end; ++p) {
    Row const row = list.rows[p];
    float const norm = query.length_norm(column.doc_length(row));
    scores[row - base] += impact(static_cast<float>(list.freqs[p]), norm);
  }
  return p;
}

}  // namespace

Bm25Query::Bm25Query(Bm25 const& params, LexicalQuery const& query,
                     QueryStatistics const& statistics)
    : params_(params),
      query_(&query),
      mean_(mean_doc_length(statistics.n_docs, statistics.total_length)) {
  for (std::size_t i = 0; i < query.leaves.size(); ++i) {
    double const idf = bm25_idf(params.variant, statistics.n_docs, statistics.doc_freqs[i]);
    weights_.push_back(bm25_weight(params, idf, query.leaves[i].multiplicity));
    shifts_.push_back(bm25_shift(params, idf, query.leaves[i].multiplicity));
    if (statistics.doc_freqs[i] > 0 && !(weights_.back() >= kPositiveWeight)) is_positive_ = false;
  }
}

float Bm25Query::impact(std::size_t leaf, float term_freq, float length_norm) const {
  float value = 0.0f;
  with_impact(leaf, [&](auto impact_of) { value = impact_of(term_freq, length_norm); });
  return value;
}

void Bm25Query::tabulate_norms(std::uint32_t max_length) {
  std::uint32_t const wanted = std::min(max_length + 1, kTableLengths);
  for (auto length = static_cast<std::uint32_t>(norms_.size()); length < wanted; ++length) {
    norms_.push_back(bm25_length_norm(params_, length, mean_));
  }
}

float Bm25Query::bound(std::size_t leaf, std::span<FrontierPoint const> frontier) const {
  float top = 0.0f;
  for (FrontierPoint const& point : frontier) {
    top = std::max(
        top, impact(leaf, static_cast<float>(point.term_freq), length_norm(point.doc_length)));
  }
  return top * kBoundSlack;
}

void scan_lexical(SegmentView const& view, std::uint32_t segment, LexicalRequest const& arm,
                  Bm25Query& query, std::span<LeafPostings const> postings, ScopeRows const& scope,
                  std::span<SelectedTile const> tiles, LexicalScratch& scratch, TopK& best) {
  if (tiles.empty()) return;
  LexicalColumn const& column = *view.segment().p.lexical[arm.column];
  std::size_t n_postings = 0;
  for (LeafPostings const& leaf : postings)
    n_postings += std::min<std::size_t>(leaf.rows.size(), scope.n_rows);
  if (n_postings == 0) return;
  if (n_postings >= kTabulateFrom) query.tabulate_norms(kTableLengths - 1);
  Window window(view, segment, arm, query, best);
  if (postings.size() == 1 && query.query().is_bag) {
    query.with_impact(0, [&](auto impact) {
      scan_single_leaf(column, query, impact, postings[0], scope, tiles, best, window);
    });
    return;
  }

  // A bag needs to know that a leaf is there, a tree which; scores that are positive tell a bag.
  bool const is_bag = query.query().is_bag;
  std::size_t const n_words = is_bag ? (query.is_positive() ? 0 : 1) : (postings.size() + 63) / 64;
  scratch.scores.resize(kWindowRows, 0.0f);
  if (n_words > 0) scratch.present.assign(kWindowRows * n_words, 0);
  std::vector<std::size_t> next(postings.size(), 0);
  std::size_t tile = 0;
  for (RowRange const& range : scope.ranges) {
    for (Row base = range.begin; base < range.end;) {
      // Start where the next posting is, so that empty stretches cost nothing.
      Row start = range.end;
      for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
        auto const& rows = postings[leaf].rows;
        auto const at = std::lower_bound(rows.begin() + static_cast<std::ptrdiff_t>(next[leaf]),
                                         rows.end(), base);
        next[leaf] = static_cast<std::size_t>(at - rows.begin());
        if (at != rows.end()) start = std::min(start, *at);
      }
      if (start >= range.end) break;
      base = start;
      Row const end = std::min(range.end, base + kWindowRows);
      for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
        LeafPostings const& list = postings[leaf];
        std::size_t const first = next[leaf];
        std::uint64_t* const present =
            n_words > 0 ? scratch.present.data() + (is_bag ? 0 : leaf / 64) : nullptr;
        query.with_impact(leaf, [&](auto impact) {
          next[leaf] =
              add_impacts(column, query, impact, list, first, base, end, scratch.scores.data());
        });
        for (std::size_t p = first; present != nullptr && p < next[leaf]; ++p)
          present[(list.rows[p] - base) * n_words] |= std::uint64_t{1} << (leaf % 64);
      }
      window.collect(base, end, tiles, tile, scratch, n_words);
      std::fill_n(scratch.scores.begin(), end - base, 0.0f);
      if (n_words > 0) std::fill_n(scratch.present.begin(), (end - base) * n_words, 0);
      base = end;
    }
  }
}

float score_lexical(Segment const& segment, std::size_t column, Bm25Query const& query,
                    std::span<LeafPostings const> postings, Row row) {
  LexicalColumn const& lexical = *segment.p.lexical[column];
  if (!lexical.has(row)) return kNoScore;
  float const norm = query.length_norm(lexical.doc_length(row));
  float score = 0.0f;
  bool holds_any = false;
  for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
    std::uint32_t const freq = postings[leaf].freq_of(row);
    if (freq == 0) continue;
    score += query.impact(leaf, static_cast<float>(freq), norm);
    holds_any = true;
  }
  if (holds_any && !query.query().is_bag) {
    bool const matches = query.query().match.matches(
        [&](std::uint32_t leaf) { return postings[leaf].freq_of(row) > 0; });
    if (!matches) return 0.0f;
  }
  return score;
}

}  // namespace hyrecall
