// The scan reads the int8 plane once: for each row it sums the most that each query vector can
// reach, a proven upper bound of the row's score. Rows are then scored canonically in the order of
// their bounds, until no bound reaches the score of the last row that is wanted. So no scan by
// these bounds scores fewer rows.
//
// Scoring a row reads the plane too: of the row's vectors only those are compared canonically that
// may be the nearest to a vector of the query, as a rule one or two.
#include "engine/dense/max_sim.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "engine/dense/layer.hpp"
#include "engine/dense/query.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kTilesAtOnce = 4;     // that a thread takes at a time
constexpr std::size_t kFewVectors = 4'096;  // of the rows that a query sees: one thread is enough
constexpr std::size_t kScoredAtOnce = 16;   // rows that a thread scores canonically at a time

// A row, and the most that its score can be.
struct BoundedRow {
  float most;
  DocRef doc;
};

// What no cosine is, and what a vector that is missing reaches.
constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct alignas(64) Reach {
  float of[cpu::kReachRows];
};
struct alignas(64) Most {
  float of[cpu::kInt8BlockRows];
};

}  // namespace

// The query's vectors as the plane's kernels read them.
class MaxSimPanels {
 public:
  MaxSimPanels(std::span<DenseQuery const> vectors, std::uint32_t dim)
      : kernels_(cpu::kernels().first_pass_for(vectors.size())) {
    std::vector<QuantizedQuery> quantized;
    std::vector<QuantizedQuery const*> all;
    quantized.reserve(vectors.size());
    for (DenseQuery const& one : vectors) {
      all.push_back(&quantized.emplace_back(quantize_query(one, dim)));
      double const constant = all.back()->bound.constant;
      constants_ += constant;
      // A quarter of a millionth: more than a float of less than 4 loses by rounding.
      below_.push_back(constant + 0x1p-22);
    }
    // Sums of n doubles below 8 err by less than n^2 2^-49, here and in the canonical score.
    constants_ += static_cast<double>(vectors.size()) * 0x1p-28;
    panels_.emplace(kernels_, all, dim);
  }

  cpu::FirstPassKernels const& kernels() const { return kernels_; }
  // Calls of(panel, the number of its first vector, how many it has).
  template <typename Of>
  void for_each(Of const& of) const {
    for (std::size_t at = 0; at < panels_->size(); ++at) {
      cpu::FirstPassQueries const panel = (*panels_)[at];
      of(panel, at * panels_->width(), panel.n);
    }
  }
  std::size_t size() const { return below_.size(); }
  std::size_t n_padded() const { return panels_->size() * panels_->width(); }
  // What the kernels' reaches leave out of all cosines together.
  double constants() const { return constants_; }
  // What a vector reaches whose cosine with the query's vector q is `cosine` or more: cut_for() or
  // less, without its branch.
  float cut(std::size_t q, float cosine) const {
    return static_cast<float>(static_cast<double>(cosine) - below_[q]);
  }

 private:
  cpu::FirstPassKernels const& kernels_;
  double constants_ = 0.0;
  std::vector<double> below_;  // [query vector]
  std::optional<QueryPanels> panels_;
};

namespace {

// Reaches of vectors, two blocks at a time, and the most of a row's. Of the thread that makes it.
class ReachReader {
 public:
  // n_parts: how many such blocks are kept.
  ReachReader(MaxSimPanels const& query, std::size_t n_parts)
      : query_(query),
        session_(query.kernels()),
        stride_(query.n_padded()),
        reach_(n_parts * stride_),
        most_(stride_),
        greatest_(stride_) {}

  void begin(DenseColumn const& column) {
    column_ = &column;
    layer_.begin(column.plane, column.dim, query_.kernels());
  }
  DenseColumn const& column() const { return *column_; }
  bool is_at(DenseColumn const& column) const { return column_ == &column; }

  // ahead: the block to prefetch meanwhile.
  void read(std::size_t part, Row block, Row n_blocks, Row ahead) {
    CodePlane const& plane = column_->plane;
    plane.check_late(column_->dim, block, block + n_blocks);
    bool const has_ahead =
        (std::size_t{ahead} + cpu::kFirstPassBlocks) * kBlockRows <= plane.scales.size();
    cpu::FirstPassPrefetch soon{has_ahead ? layer_.codes(ahead) : nullptr, 0};
    layer_.ask_for_scales(ahead);
    cpu::FirstPassRows const rows = layer_.rows(block, static_cast<int>(n_blocks));
    query_.for_each([&](cpu::FirstPassQueries const& panel, std::size_t at, int) {
      query_.kernels().reach_rows(rows, column_->dim, panel, soon, reach(part, at));
      soon = {};
    });
  }
  Row ahead_of(Row block) const { return block + layer_.ahead_blocks; }
  // Prefetches what read() reads.
  void ask_for(Row block, Row n_blocks) const {
    std::uint8_t const* const codes = layer_.codes(block);
    for (std::size_t at = 0; at < n_blocks * layer_.block_bytes; at += cpu::kInt8LineBytes)
      __builtin_prefetch(codes + at, 0, 2);
    for (Row i = 0; i < n_blocks; ++i) layer_.ask_for_scales(block + i);
  }

  void begin_most() {
    for (Most& one : most_) std::fill(std::begin(one.of), std::end(one.of), kNothing);
  }
  // By vectors [begin, end) of the part.
  void raise_most(std::size_t part, std::size_t begin, std::size_t end) {
    query_.for_each([&](cpu::FirstPassQueries const&, std::size_t at, int n) {
      query_.kernels().raise_most(reach(part, at), n, begin, end, &most_[at].of);
    });
  }
  // The greatest reach of each of the query's vectors.
  std::span<float const> greatest() {
    query_.for_each([&](cpu::FirstPassQueries const&, std::size_t at, int n) {
      query_.kernels().fold_most(&most_[at].of, n, &greatest_[at]);
    });
    return std::span(greatest_).first(query_.size());
  }
  // rows[q] of each of the query's vectors: bits of the part's vectors [begin, end) that reach
  // cuts[q].
  void find(std::size_t part, std::size_t begin, std::size_t end, std::span<float const> cuts,
            std::span<std::uint32_t> rows) {
    query_.for_each([&](cpu::FirstPassQueries const&, std::size_t at, int n) {
      query_.kernels().find_reaching(reach(part, at), n, begin, end, &cuts[at], &rows[at]);
    });
  }

 private:
  float (*reach(std::size_t part, std::size_t at))
      [cpu::kReachRows] { return &reach_[part * stride_ + at].of; }

  MaxSimPanels const& query_;
  cpu::FirstPassSession session_;
  std::size_t stride_;
  DenseColumn const* column_ = nullptr;
  Layer layer_;
  std::vector<Reach> reach_;  // [part][query]
  std::vector<Most> most_;    // [query]
  std::vector<float> greatest_;
};

// Bounds of the rows of some tiles, by one thread.
class BoundScan {
 public:
  BoundScan(DenseColumn const& column, MaxSimPanels const& query)
      : query_(query), reader_(query, 1) {
    reader_.begin(column);
  }

  // Nothing for a row without a vector.
  std::optional<float> bound(Row row) {
    RowRange const own = reader_.column().vectors_of(row);
    reader_.begin_most();
    Row pair = own.begin / kPairRows;
    for (std::size_t first = std::size_t{pair} * kPairRows; first < own.end;
         first += kPairRows, ++pair) {
      if (pair != read_) read(pair);
      reader_.raise_most(0, std::max<std::size_t>(own.begin, first) - first,
                         std::min<std::size_t>(own.end - first, kPairRows));
    }
    double sum = query_.constants();
    for (float const one : reader_.greatest()) sum += static_cast<double>(one);
    if (sum == static_cast<double>(kNothing)) return std::nullopt;
    // Only planes of a forged file give NaN, which would break the order of bounds.
    return std::isnan(sum) ? -kNothing : float_up(sum);
  }

 private:
  static constexpr Row kPairRows = static_cast<Row>(cpu::kReachRows);

  // A plane has spare blocks at its end, so there are two wherever there is one.
  void read(Row pair) {
    Row const block = pair * cpu::kFirstPassBlocks;
    reader_.read(0, block, cpu::kFirstPassBlocks, reader_.ahead_of(block));
    read_ = pair;
  }

  MaxSimPanels const& query_;
  ReachReader reader_;
  Row read_ = kNone32;  // the pair of blocks whose reaches these are
};

// The canonical score of a row, by one thread: reads the row's plane, and compares canonically only
// what may be a greatest cosine. Between begin() and finish() what is to be compared is fetched.
class RowScorer {
 public:
  explicit RowScorer(MaxSimQuery const& query)
      : query_(query),
        reader_(*query.panels(), kPartsAtOnce),
        best_(query.vectors().size()),
        cuts_(best_.size()),
        asked_(best_.size()),
        first_(best_.size()),
        found_(kPartsAtOnce * best_.size()) {}

  // next: the row that is begun after this one; its plane is prefetched.
  void begin(MaxSimRow const& one, MaxSimRow const* next) {
    if (!reader_.is_at(*one.column)) reader_.begin(*one.column);
    own_ = one.column->vectors_of(one.row);
    std::fill(best_.begin(), best_.end(), kNothing);
    std::fill(cuts_.begin(), cuts_.end(), kNothing);
    block_ = own_.begin / kBlockRows;
    bool const is_near = next != nullptr && next->column == one.column;
    read(is_near ? one.column->vectors_of(next->row) : RowRange{0, 0});
  }

  float finish() {
    for (;;) {
      compare_found();
      if (block_ >= end_block(own_)) break;
      read({0, 0});
    }
    return best_.front() == kNothing ? kNoScore : max_sim(best_.data(), best_.size());
  }

 private:
  static constexpr std::size_t kPartsAtOnce = 4;  // so that their reaches stay in a cache
  static constexpr Row kPartBlocks = static_cast<Row>(cpu::kFirstPassBlocks);
  struct Part {
    Row first;               // vector
    std::size_t begin, end;  // of the row's vectors, from the first
  };

  static Row end_block(RowRange vectors) { return (vectors.end + kBlockRows - 1) / kBlockRows; }

  // Reads the next blocks of the row, and finds what reaches farthest. next: vectors to prefetch.
  void read(RowRange next) {
    parts_.clear();
    reader_.begin_most();
    Row const end = end_block(own_);
    Row soon = next.begin / kBlockRows;
    for (; block_ < end && parts_.size() < kPartsAtOnce; block_ += kPartBlocks) {
      Row const first = block_ * kBlockRows;
      parts_.push_back({first, std::max(own_.begin, first) - first,
                        std::min<std::size_t>(own_.end - first, cpu::kReachRows)});
      if (soon < end_block(next))
        reader_.ask_for(soon, std::min(end_block(next) - soon, kPartBlocks));
      soon += kPartBlocks;
      reader_.read(parts_.size() - 1, block_, std::min(end - block_, kPartBlocks), kNone32);
      reader_.raise_most(parts_.size() - 1, parts_.back().begin, parts_.back().end);
    }
    std::span<float const> const greatest = reader_.greatest();
    for (std::size_t q = 0; q < best_.size(); ++q) {
      bool const may_rise = greatest[q] >= cuts_[q] && greatest[q] != kNothing;
      asked_[q] = may_rise ? greatest[q] : -kNothing;
    }
    find();
    pairs_.clear();
    for (std::size_t q = 0; q < best_.size(); ++q) {
      first_[q] = kNone32;
      for (std::size_t at = parts_.size(); at-- > 0;)
        if (found_[at * best_.size() + q] != 0)
          first_[q] = vector_of(at, found_[at * best_.size() + q]);
      if (first_[q] == kNone32) continue;
      reader_.column().ask_for(first_[q]);
      pairs_.push_back({&query_.vectors()[q], first_[q]});
    }
  }

  // First what reaches farthest: few others may then be nearer.
  void compare_found() {
    compare();
    for (std::size_t q = 0; q < best_.size(); ++q)
      asked_[q] = first_[q] == kNone32 ? -kNothing : cuts_[q];
    find();
    pairs_.clear();
    for (std::size_t q = 0; q < best_.size(); ++q) {
      for (std::size_t at = 0; at < parts_.size(); ++at) {
        for (std::uint32_t left = found_[at * best_.size() + q]; left != 0; left &= left - 1) {
          Row const vector = vector_of(at, left);
          if (vector != first_[q]) pairs_.push_back({&query_.vectors()[q], vector});
        }
      }
    }
    compare();
  }

  // Which of the parts' vectors reach what is asked.
  void find() {
    for (std::size_t at = 0; at < parts_.size(); ++at)
      reader_.find(at, parts_[at].begin, parts_[at].end, asked_,
                   std::span(found_).subspan(at * best_.size()));
  }

  Row vector_of(std::size_t part, std::uint32_t found) const {
    return parts_[part].first + static_cast<Row>(std::countr_zero(found));
  }

  void compare() {
    cosines_.resize(pairs_.size());
    reader_.column().score(pairs_, cosines_.data());
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto const q = static_cast<std::size_t>(pairs_[i].query - query_.vectors().data());
      best_[q] = std::max(best_[q], cosines_[i]);
      cuts_[q] = query_.panels()->cut(q, best_[q]);
    }
  }

  MaxSimQuery const& query_;
  ReachReader reader_;
  RowRange own_{0, 0};  // vectors of the row
  Row block_ = 0;       // that is read next
  // Of each of the query's vectors:
  std::vector<float> best_;   // the greatest cosine so far
  std::vector<float> cuts_;   // what a vector reaches that may have a greater one
  std::vector<float> asked_;  // what a vector must reach to be found
  std::vector<Row> first_;    // the vector of these parts that is compared first, or kNone32
  std::vector<Part> parts_;
  std::vector<std::uint32_t> found_;  // [part][query]
  std::vector<DenseColumn::Pair> pairs_;
  std::vector<float> cosines_;
};

// One query.
class MaxSimScan {
 public:
  MaxSimScan(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
             MaxSimQuery const& query, int threads)
      : snapshot_(snapshot),
        arm_(arm),
        query_(query),
        best_(request.depth),
        depth_(request.depth),
        threads_(threads) {}

  std::vector<Candidate> run(GroupTiles const& tiles) && {
    std::vector<BoundedRow> rows = bound_all(tiles);
    auto const middle = rows.begin() + static_cast<std::ptrdiff_t>(std::min(depth_, rows.size()));
    std::nth_element(rows.begin(), middle, rows.end(), by_most);
    score({rows.data(), static_cast<std::size_t>(middle - rows.begin())});
    rows.erase(rows.begin(), middle);
    std::erase_if(rows, [&](BoundedRow const& one) { return one.most < best_.threshold(); });
    std::sort(rows.begin(), rows.end(), by_most);
    std::size_t const step = kScoredAtOnce * static_cast<std::size_t>(std::max(threads_, 1));
    for (std::size_t begin = 0; begin < rows.size(); begin += step) {
      if (rows[begin].most < best_.threshold()) break;
      score(std::span(rows).subspan(begin, std::min(step, rows.size() - begin)));
    }
    return best_.take();
  }

 private:
  static bool by_most(BoundedRow const& a, BoundedRow const& b) { return a.most > b.most; }

  DenseColumn const& column_of(std::size_t segment) const {
    return *snapshot_.segments[segment]->segment().p.dense[arm_.column];
  }

  // All rows that the query sees whose bound passes the floor.
  std::vector<BoundedRow> bound_all(GroupTiles const& tiles) const {
    struct Item {
      std::uint32_t segment;
      std::span<SelectedTile const> tiles;
    };
    std::vector<Item> items;
    for (std::uint32_t s = 0; s < tiles.size(); ++s) {
      std::span<SelectedTile const> const all = tiles[s];
      for (std::size_t at = 0; at < all.size(); at += kTilesAtOnce)
        items.push_back({s, all.subspan(at, std::min(kTilesAtOnce, all.size() - at))});
    }
    std::vector<std::vector<BoundedRow>> found(items.size());
    parallel_for(items.size(), threads_, [&](int, std::size_t i) {
      Item const& item = items[i];
      DenseColumn const& column = column_of(item.segment);
      std::optional<BoundScan> scan;
      if (query_.reads(column)) {
        scan.emplace(column, *query_.panels());
        column.plane_use.n_windows.fetch_add(1, std::memory_order_relaxed);
      }
      for (SelectedTile const& selected : item.tiles) {
        for_each_bit(selected.mask, [&](Row bit) {
          Row const row = selected.tile * kTileRows + bit;
          std::optional<float> most = std::numeric_limits<float>::infinity();
          if (scan) most = scan->bound(row);
          if (most && arm_.floor.passes(*most)) found[i].push_back({*most, {item.segment, row}});
        });
      }
    });
    std::size_t n = 0;
    for (auto const& some : found) n += some.size();
    std::vector<BoundedRow> out;
    out.reserve(n);
    for (auto const& some : found) out.insert(out.end(), some.begin(), some.end());
    return out;
  }

  void score(std::span<BoundedRow const> rows) {
    std::vector<MaxSimRow> wanted;
    for (BoundedRow const& one : rows) wanted.push_back({&column_of(one.doc.segment), one.doc.row});
    std::vector<float> scores(rows.size());
    query_.score(wanted, threads_, scores.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (scores[i] == kNoScore || !arm_.floor.passes(scores[i])) continue;
      DocRef const doc = rows[i].doc;
      best_.offer({scores[i], snapshot_.segments[doc.segment]->segment().p.seqs[doc.row], doc});
    }
    best_.tighten();
  }

  Snapshot const& snapshot_;
  DenseRequest const& arm_;
  MaxSimQuery const& query_;
  TopK best_;
  std::size_t depth_;
  int threads_;
};

// Of the rows that a group sees, as far as the first so many.
std::size_t count_vectors(Snapshot const& snapshot, std::size_t column, GroupTiles const& tiles,
                          std::size_t most) {
  std::size_t n = 0;
  for (std::size_t s = 0; s < tiles.size(); ++s) {
    DenseColumn const& own = *snapshot.segments[s]->segment().p.dense[column];
    for (SelectedTile const& selected : tiles[s]) {
      for_each_bit(selected.mask, [&](Row bit) {
        RowRange const vectors = own.vectors_of(selected.tile * kTileRows + bit);
        n += vectors.end - vectors.begin;
      });
      if (n > most) return n;
    }
  }
  return n;
}

}  // namespace

std::vector<MaxSimPair> MaxSimQuery::pairs(DenseColumn const& column, Row row) const {
  RowRange const own = column.vectors_of(row);
  std::vector<MaxSimPair> out;
  std::vector<float> cosines(own.end - own.begin);
  for (DenseQuery const& one : vectors_) {
    MaxSimPair best{kNone32, 0.0f};
    column.score(one.padded.data(), one.inverse_norm, own.begin, own.end, cosines.data());
    for (std::uint32_t v = 0; v < cosines.size(); ++v) {
      if (column.inverse_norms[own.begin + v] == 0.0f) continue;
      if (best.vector == kNone32 || cosines[v] > best.cosine) best = {v, cosines[v]};
    }
    if (best.vector == kNone32) return {};
    out.push_back(best);
  }
  return out;
}

MaxSimQuery::MaxSimQuery(Snapshot const& snapshot, BatchRequest const& request,
                         DenseRequest const& arm, std::size_t query)
    : vectors_(arm.bundle(query)) {
  bool const has_plane = std::any_of(
      snapshot.segments.begin(), snapshot.segments.end(),
      [&](auto const& one) { return !one->segment().p.dense[arm.column]->plane.empty(); });
  if (has_plane && request.settings.first_pass != FirstPassChoice::kRows)
    read_planes(arm.queries->dim());
}

void MaxSimQuery::read_planes(std::uint32_t dim) {
  panels_ = std::make_shared<MaxSimPanels const>(vectors_, dim);
}

void MaxSimQuery::score(std::span<MaxSimRow const> rows, int threads, float* scores) const {
  std::size_t const n_runs = (rows.size() + kScoredAtOnce - 1) / kScoredAtOnce;
  parallel_for(n_runs, threads, [&](int, std::size_t run) {
    std::size_t const begin = run * kScoredAtOnce;
    std::size_t const n = std::min(rows.size() - begin, kScoredAtOnce);
    score_run(rows.subspan(begin, n), scores + begin);
  });
}

void MaxSimQuery::score_run(std::span<MaxSimRow const> rows, float* scores) const {
  std::vector<std::size_t> read;  // those with a plane
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (reads(*rows[i].column)) {
      read.push_back(i);
      continue;
    }
    std::vector<float> greatest;
    for (MaxSimPair const& met : pairs(*rows[i].column, rows[i].row))
      greatest.push_back(met.cosine);
    scores[i] = greatest.empty() ? kNoScore : max_sim(greatest.data(), greatest.size());
  }
  if (read.empty()) return;
  RowScorer scorers[] = {RowScorer(*this), RowScorer(*this)};
  for (std::size_t i = 0; i <= read.size(); ++i) {
    MaxSimRow const* const next = i + 1 < read.size() ? &rows[read[i + 1]] : nullptr;
    if (i < read.size()) scorers[i % 2].begin(rows[read[i]], next);
    if (i > 0) scores[read[i - 1]] = scorers[(i - 1) % 2].finish();
  }
}

QueryLists scan_max_sim(Snapshot const& snapshot, BatchRequest const& request,
                        DenseRequest const& arm, Audience const& audience) {
  QueryLists lists(request.n_queries);
  if (request.depth == 0) return lists;
  auto const run = [&](std::size_t q, int threads) {
    if (!arm.has(q)) return;
    MaxSimQuery const query(snapshot, request, arm, q);
    lists[q] = MaxSimScan(snapshot, request, arm, query, threads)
                   .run(audience.tiles(audience.group_of(q)));
  };
  std::vector<bool> is_small(audience.n_groups());
  for (std::size_t group = 0; group < is_small.size(); ++group) {
    is_small[group] =
        count_vectors(snapshot, arm.column, audience.tiles(group), kFewVectors) <= kFewVectors;
  }
  std::vector<std::size_t> small, large;
  for (std::size_t q = 0; q < request.n_queries; ++q)
    (is_small[audience.group_of(q)] ? small : large).push_back(q);
  parallel_for(small.size(), request.threads, [&](int, std::size_t i) { run(small[i], 1); });
  for (std::size_t const q : large) {
    poll_interrupt();
    run(q, request.threads);
  }
  return lists;
}

}  // namespace hyrecall
