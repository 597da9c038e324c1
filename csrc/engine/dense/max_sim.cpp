// The scan reads the int8 plane once: for each row it sums the most that each query vector can
// reach, a proven upper bound of the row's score. Rows are then scored canonically in the order of
// their bounds, until no bound reaches the score of the last row that is wanted. So no scan by
// these bounds scores fewer rows.
#include "engine/dense/max_sim.hpp"

#include <algorithm>
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
constexpr std::size_t kScoredAtOnce = 8;    // rows that a thread scores canonically at a time

// A row, and the most that its score can be.
struct BoundedRow {
  float most;
  DocRef doc;
};

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
      constants_ += static_cast<double>(all.back()->bound.constant);
    }
    // Sums of n doubles below 8 err by less than n^2 2^-49, here and in the canonical score.
    constants_ += static_cast<double>(vectors.size()) * 0x1p-28;
    panels_.emplace(kernels_, all, dim);
  }

  cpu::FirstPassKernels const& kernels() const { return kernels_; }
  QueryPanels const& panels() const { return *panels_; }
  // What the kernels' reaches leave out of all cosines together.
  double constants() const { return constants_; }

 private:
  cpu::FirstPassKernels const& kernels_;
  double constants_ = 0.0;
  std::optional<QueryPanels> panels_;
};

// Bounds of the rows of some tiles, by one thread.
class BoundScan {
 public:
  BoundScan(DenseColumn const& column, MaxSimPanels const& query)
      : column_(column),
        query_(query),
        n_blocks_(column.plane.scales.size() / cpu::kInt8BlockRows),
        n_panels_(query.panels().size()),
        reach_(n_panels_ * query.panels().width()),
        most_(reach_.size()) {
    layer_.begin(column.plane, column.dim, query.kernels());
  }

  // Nothing for a row without a vector.
  std::optional<float> bound(Row row) {
    RowRange const own = column_.vectors_of(row);
    for (Most& one : most_) std::fill(std::begin(one.of), std::end(one.of), kNothing);
    Row pair = own.begin / kPairRows;
    for (std::size_t first = std::size_t{pair} * kPairRows; first < own.end;
         first += kPairRows, ++pair) {
      if (pair != read_) read(pair);
      std::size_t const begin = std::max<std::size_t>(own.begin, first) - first;
      std::size_t const end = std::min<std::size_t>(own.end - first, kPairRows);
      for_each_panel([&](std::size_t at, int n) {
        query_.kernels().raise_most(&reach_[at].of, n, begin, end, &most_[at].of);
      });
    }
    double sum = query_.constants();
    for_each_panel(
        [&](std::size_t at, int n) { sum += query_.kernels().sum_most(&most_[at].of, n); });
    if (sum == static_cast<double>(kNothing)) return std::nullopt;
    // Only planes of a forged file give NaN, which would break the order of bounds.
    return std::isnan(sum) ? -kNothing : float_up(sum);
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();
  static constexpr Row kPairRows = static_cast<Row>(cpu::kReachRows);
  struct alignas(64) Reach {
    float of[cpu::kReachRows];
  };
  struct alignas(64) Most {
    float of[cpu::kInt8BlockRows];
  };

  template <typename F>
  void for_each_panel(F const& f) const {
    for (std::size_t panel = 0; panel < n_panels_; ++panel)
      f(panel * query_.panels().width(), query_.panels()[panel].n);
  }

  // A plane has spare blocks at its end, so there are two wherever there is one.
  void read(Row pair) {
    Row const block = pair * cpu::kFirstPassBlocks;
    column_.plane.check_late(column_.dim, block, block + cpu::kFirstPassBlocks);
    cpu::FirstPassRows const rows = layer_.rows(block, cpu::kFirstPassBlocks);
    Row const next = block + layer_.ahead_blocks;
    bool const has_next = std::size_t{next} + cpu::kFirstPassBlocks <= n_blocks_;
    cpu::FirstPassPrefetch const ahead{has_next ? layer_.codes(next) : nullptr, 0};
    layer_.ask_for_scales(next);
    for (std::size_t panel = 0; panel < n_panels_; ++panel) {
      query_.kernels().reach_rows(rows, column_.dim, query_.panels()[panel],
                                  panel == 0 ? ahead : cpu::FirstPassPrefetch{},
                                  &reach_[panel * query_.panels().width()].of);
    }
    read_ = pair;
  }

  DenseColumn const& column_;
  MaxSimPanels const& query_;
  std::size_t n_blocks_;
  std::size_t n_panels_;
  Layer layer_;
  std::vector<Reach> reach_;  // [panel][query]
  std::vector<Most> most_;    // the same
  Row read_ = kNone32;        // the pair of blocks whose reaches these are
};

// One query.
class MaxSimScan {
 public:
  MaxSimScan(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
             int threads)
      : snapshot_(snapshot),
        arm_(arm),
        best_(request.depth),
        depth_(request.depth),
        threads_(threads),
        reads_planes_(request.settings.first_pass != FirstPassChoice::kRows) {}

  std::vector<Candidate> run(MaxSimQuery const& query, GroupTiles const& tiles) && {
    std::vector<BoundedRow> rows = bound_all(query, tiles);
    auto const middle = rows.begin() + static_cast<std::ptrdiff_t>(std::min(depth_, rows.size()));
    std::nth_element(rows.begin(), middle, rows.end(), by_most);
    score(query, {rows.data(), static_cast<std::size_t>(middle - rows.begin())});
    rows.erase(rows.begin(), middle);
    std::erase_if(rows, [&](BoundedRow const& one) { return one.most < best_.threshold(); });
    std::sort(rows.begin(), rows.end(), by_most);
    std::size_t const step = kScoredAtOnce * static_cast<std::size_t>(std::max(threads_, 1));
    for (std::size_t begin = 0; begin < rows.size(); begin += step) {
      if (rows[begin].most < best_.threshold()) break;
      score(query, std::span(rows).subspan(begin, std::min(step, rows.size() - begin)));
    }
    return best_.take();
  }

 private:
  static bool by_most(BoundedRow const& a, BoundedRow const& b) { return a.most > b.most; }

  DenseColumn const& column_of(std::size_t segment) const {
    return *snapshot_.segments[segment]->segment().p.dense[arm_.column];
  }

  // All rows that the query sees whose bound passes the floor.
  std::vector<BoundedRow> bound_all(MaxSimQuery const& query, GroupTiles const& tiles) const {
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
    if (items.empty()) return {};
    MaxSimPanels const panels(query.vectors(), column_of(items.front().segment).dim);
    std::vector<std::vector<BoundedRow>> found(items.size());
    parallel_for(items.size(), threads_, [&](int, std::size_t i) {
      Item const& item = items[i];
      DenseColumn const& column = column_of(item.segment);
      std::optional<BoundScan> scan;
      if (reads_planes_ && !column.plane.empty()) {
        scan.emplace(column, panels);
        column.plane_use.n_windows.fetch_add(1, std::memory_order_relaxed);
      }
      cpu::FirstPassSession const session(panels.kernels());
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

  void score(MaxSimQuery const& query, std::span<BoundedRow const> rows) {
    std::vector<std::optional<float>> scores(rows.size());
    parallel_runs(rows.size(), kScoredAtOnce, threads_, [&](int, std::size_t i) {
      scores[i] = query.score(column_of(rows[i].doc.segment), rows[i].doc.row);
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!scores[i] || !arm_.floor.passes(*scores[i])) continue;
      DocRef const doc = rows[i].doc;
      best_.offer({*scores[i], snapshot_.segments[doc.segment]->segment().p.seqs[doc.row], doc});
    }
    best_.tighten();
  }

  Snapshot const& snapshot_;
  DenseRequest const& arm_;
  TopK best_;
  std::size_t depth_;
  int threads_;
  bool reads_planes_;
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

std::optional<float> MaxSimQuery::score(DenseColumn const& column, Row row) const {
  std::vector<MaxSimPair> const found = pairs(column, row);
  if (found.empty()) return std::nullopt;
  std::vector<float> greatest;
  for (MaxSimPair const& one : found) greatest.push_back(one.cosine);
  return max_sim(greatest.data(), greatest.size());
}

QueryLists scan_max_sim(Snapshot const& snapshot, BatchRequest const& request,
                        DenseRequest const& arm, Audience const& audience) {
  QueryLists lists(request.n_queries);
  if (request.depth == 0) return lists;
  auto const run = [&](std::size_t q, int threads) {
    std::vector<DenseQuery> vectors = arm.bundle(q);
    if (vectors.empty()) return;
    MaxSimQuery const query(std::move(vectors));
    lists[q] = MaxSimScan(snapshot, request, arm, threads)
                   .run(query, audience.tiles(audience.group_of(q)));
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
