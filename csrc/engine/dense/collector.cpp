#include "engine/dense/collector.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/formulas.hpp"
#include "engine/dense/column.hpp"
#include "engine/scope/selection.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {
namespace {

// How many rows wait before they are settled: enough to share the cost of settling, few enough to
// get the first threshold soon.
std::size_t capacity_for(std::size_t depth) {
  return 512 + 8 * std::min<std::size_t>(depth, 1 << 20);
}

constexpr std::size_t kFewWait = 64;  // as many as wait in a slice, where the threshold is good

constexpr std::size_t kLooseParts = 8;  // the best of so many parts are scored before the others

constexpr std::size_t kBins = 256;  // of reaches

constexpr int kPlainWindows = 4;  // including the present one; then the first pass is tried again

// The shortest run that holds every selected row of the tile.
RowRange span_of(SelectedTile const& selected) {
  TileMask const m = selected.mask;
  Row const first = m.low != 0 ? static_cast<Row>(std::countr_zero(m.low))
                               : 64 + static_cast<Row>(std::countr_zero(m.high));
  Row const last = m.high != 0 ? 127 - static_cast<Row>(std::countl_zero(m.high))
                               : 63 - static_cast<Row>(std::countl_zero(m.low));
  return {selected.tile * kTileRows + first, selected.tile * kTileRows + last + 1};
}

}  // namespace

DenseCollector::DenseCollector(Snapshot const& snapshot, DenseRequest const& arm,
                               std::uint32_t query, QuantizedQuery const* quantized,
                               std::size_t depth, SharedThreshold& shared)
    : snapshot_(&snapshot),
      arm_(&arm),
      query_(query),
      quantized_(quantized),
      shared_(&shared),
      depth_(depth),
      capacity_(capacity_for(depth)),
      best_(depth) {
  if (!quantized->codes.empty()) waiting_.reserve(kFewWait);
  threshold_ = -1.0f;
  if (arm.floor.set) threshold_ = std::max(threshold_, arm.floor.value);
  cut_ = cut_for(threshold_, quantized_->bound);
}

bool DenseCollector::begin_window() {
  if (plain_windows_ > 0) --plain_windows_;
  raise(std::max(best_.threshold(), shared_->load()));
  return is_plain();
}

void DenseCollector::go_plain() {
  has_exploded_ = false;
  plain_windows_ = kPlainWindows;
}

void DenseCollector::raise(float threshold) {
  if (threshold <= threshold_) return;
  threshold_ = threshold;
  cut_ = cut_for(threshold, quantized_->bound);
  shared_->raise(threshold);
}

void DenseCollector::offer(float score, Seq seq, DocRef doc) {
  if (score < best_.threshold() || !arm_->floor.passes(score)) return;
  best_.offer({score, seq, doc});
}

void DenseCollector::score_tile(DenseColumn const& column, std::span<Seq const> seqs,
                                std::uint32_t segment, SelectedTile const& selected) {
  DenseQuery const query = arm_->query(query_);
  // One run per tile: scoring a hole costs less than a second call, and its scores are dropped
  // below.
  RowRange const rows = span_of(selected);
  Row const base = selected.tile * kTileRows;
  float scores[kTileRows];
  column.score(query.padded.data(), query.inverse_norm, rows.begin, rows.end,
               scores + (rows.begin - base));
  for_each_bit(selected.mask, [&](Row i) {
    if (scores[i] >= threshold_ && column.has(base + i))
      offer(scores[i], seqs[base + i], {segment, base + i});
  });
}

// If the rows grow by half before each call, all calls together cost a few times the last one.
void DenseCollector::settle_early() {
  if (waiting_.size() >= n_waited_ + depth_ / 4 + 4) settle();
  if (loose_.size() >= n_settled_ + std::max(depth_ / 4 + 4, n_settled_ / 2)) settle_loose();
}

void DenseCollector::score(std::span<Waiting> rows) {
  DenseQuery const query = arm_->query(query_);
  // Score segment by segment.
  auto const by_segment = [](Waiting const& a, Waiting const& b) {
    return a.doc.segment < b.doc.segment;
  };
  if (!std::is_sorted(rows.begin(), rows.end(), by_segment))
    std::sort(rows.begin(), rows.end(), by_segment);
  std::vector<Row> some;
  std::vector<float> scores;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    std::uint32_t const number = rows[begin].doc.segment;
    some.clear();
    for (; end < rows.size() && rows[end].doc.segment == number; ++end)
      some.push_back(rows[end].doc.row);
    Segment const& segment = snapshot_->segments[number]->segment();
    scores.resize(some.size());
    segment.p.dense[arm_->column]->score(query.padded.data(), query.inverse_norm, some,
                                         scores.data());
    for (std::size_t i = 0; i < some.size(); ++i)
      offer(scores[i], segment.p.seqs[some[i]], {number, some[i]});
  }
}

void DenseCollector::drop_hopeless(std::vector<Waiting>& rows, std::size_t from) const {
  std::size_t kept = 0;
  for (std::size_t i = from; i < rows.size(); ++i) {
    if (rows[i].reach >= cut_) rows[kept++] = rows[i];
  }
  rows.resize(kept);
}

// Brings the n rows with the highest upper bounds to the front. If there are many rows, a histogram
// first leaves few of them to nth_element, whose branches cannot be predicted.
void DenseCollector::bring_forward(std::vector<Waiting>& rows, std::size_t n) {
  if (n == 0 || n >= rows.size()) return;
  auto end = rows.end();
  if (rows.size() >= 4 * n && rows.size() >= kBins / 2) {
    float least = rows.front().reach;
    float most = least;
    for (Waiting const& one : rows) {
      least = std::min(least, one.reach);
      most = std::max(most, one.reach);
    }
    if (most - least < 0x1p-100f) return;  // any n will do, and the scale would overflow
    float const scale = static_cast<float>(kBins - 1) / (most - least);
    auto const bin = [&](Waiting const& one) {
      return static_cast<std::size_t>((one.reach - least) * scale);
    };
    std::array<std::uint32_t, kBins> counts{};
    for (Waiting const& one : rows) ++counts[bin(one)];
    std::size_t from = kBins;
    for (std::size_t above = 0; above < n;) above += counts[--from];
    end = std::partition(rows.begin(), rows.end(),
                         [&](Waiting const& one) { return bin(one) >= from; });
  }
  auto const nth = rows.begin() + static_cast<std::ptrdiff_t>(n);
  if (nth == end) return;
  std::nth_element(rows.begin(), nth, end,
                   [](Waiting const& a, Waiting const& b) { return a.reach > b.reach; });
}

void DenseCollector::settle_loose(std::size_t n) {
  best_.tighten();
  raise(std::max(best_.threshold(), shared_->load()));
  drop_hopeless(loose_, 0);
  n = std::min(n, loose_.size());
  bring_forward(loose_, n);
  score({loose_.data(), n});
  best_.tighten();
  raise(best_.threshold());
  drop_hopeless(loose_, n);
  n_looked_ += n;
  n_settled_ = loose_.size();
}

void DenseCollector::settle() {
  if (waiting_.empty()) return;
  raise(shared_->load());
  std::size_t const n = std::min(depth_, waiting_.size());
  bring_forward(waiting_, n);
  score({waiting_.data(), n});
  best_.tighten();
  raise(best_.threshold());
  drop_hopeless(waiting_, n);
  if (waiting_.size() > capacity_ / 2) {  // or they would be settled again and again
    score(waiting_);
    waiting_.clear();
    best_.tighten();
    raise(best_.threshold());
    has_exploded_ = true;
  }
  n_waited_ = waiting_.size();
}

void DenseCollector::join(DenseCollector&& other) {
  for (Candidate const& one : other.best_.take()) best_.offer(one);
  waiting_.insert(waiting_.end(), other.waiting_.begin(), other.waiting_.end());
  loose_.insert(loose_.end(), other.loose_.begin(), other.loose_.end());
}

std::vector<Candidate> DenseCollector::finish() {
  best_.tighten();
  raise(std::max(best_.threshold(), shared_->load()));
  drop_hopeless(waiting_, 0);
  settle();
  score(waiting_);
  best_.tighten();
  raise(best_.threshold());
  while (!loose_.empty()) settle_loose(std::max(depth_, loose_.size() / kLooseParts));
  return best_.take();
}

}  // namespace hyrecall
