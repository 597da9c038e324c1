#include "engine/dense/sparse_column.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/zeroed.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kTermsAtOnce = 256;   // between two looks for an interrupt
constexpr std::size_t kRowsAtOnce = 4'096;  // the same
constexpr std::size_t kFewRows = 16;  // to look up one by one rather than read so many postings

// Puts postings into a column, term after term.
class Postings {
 public:
  Postings(bool is_half, std::size_t n_rows, std::size_t most)
      : most_(most), rows_(most), weights_(most * (is_half ? 2 : 4)), sizes_(n_rows, 0) {
    out_.is_half = is_half;
  }

  // A row has to be above the last one of the same term.
  void add(Row row, std::uint8_t const* weight) {
    // Only rows of a forged file have more than their number of terms.
    require(n_ < most_ && row < sizes_.size(), "as many postings as rows have terms");
    Row const page = row / kPageRows;
    if (n_term_ == 0 || run_pages_.back() != page) {
      run_pages_.push_back(page);
      run_begins_.push_back(n_);
      run_greatest_.push_back(0.0f);
    }
    std::size_t const width = out_.item_bytes();
    std::memcpy(weights_.data() + n_ * width, weight, width);
    rows_[n_] = static_cast<std::uint16_t>(row % kPageRows);
    ++sizes_[row];
    ++n_term_;
    ++n_;
  }

  // Leaves out a term without postings.
  void end_term(std::string_view term) {
    if (n_term_ == 0) return;
    bytes_.insert(bytes_.end(), term.begin(), term.end());
    offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
    term_runs_.push_back(run_pages_.size());
    n_term_ = 0;
  }

  std::shared_ptr<SparseColumn const> finish() && {
    std::size_t const width = out_.item_bytes();
    Buffer<std::uint16_t> const rows = std::move(rows_).finish();
    Buffer<std::uint8_t> const weights = std::move(weights_).finish();
    out_.rows = {rows.data(), n_, rows.owner()};
    out_.weights = {weights.data(), n_ * width, weights.owner()};
    for (std::size_t at = 0; at < run_begins_.size(); ++at) {
      std::size_t const end = at + 1 < run_begins_.size() ? run_begins_[at + 1] : n_;
      for (std::size_t i = run_begins_[at]; i < end; ++i)
        run_greatest_[at] = std::max(run_greatest_[at], out_.weight(i));
    }
    out_.terms = {std::move(offsets_), std::move(bytes_)};
    out_.term_runs = std::move(term_runs_);
    out_.run_pages = std::move(run_pages_);
    out_.run_begins = std::move(run_begins_);
    out_.run_greatest = std::move(run_greatest_);
    out_.sizes = std::move(sizes_);
    return std::make_shared<SparseColumn const>(std::move(out_));
  }

 private:
  SparseColumn out_;
  std::size_t most_;
  Zeroed<std::uint16_t> rows_;
  Zeroed<std::uint8_t> weights_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint64_t> term_runs_{0};
  std::vector<std::uint32_t> run_pages_;
  std::vector<std::uint64_t> run_begins_;
  std::vector<float> run_greatest_;
  std::size_t n_ = 0;
  std::size_t n_term_ = 0;
};

}  // namespace

std::size_t SparseColumn::bytes() const {
  return terms.offsets.bytes() + terms.bytes.bytes() + term_runs.bytes() + run_pages.bytes() +
         run_begins.bytes() + run_greatest.bytes() + rows.bytes() + weights.bytes() + sizes.bytes();
}

void SparseColumn::check_parts(std::string const& name) const {
  std::size_t const n_runs = run_pages.size();
  bool fits = term_runs.size() == terms.size() + 1 && term_runs[0] == 0 &&
              term_runs[terms.size()] == n_runs && run_begins.size() == n_runs &&
              run_greatest.size() == n_runs && weights.size() == rows.size() * item_bytes() &&
              std::is_sorted(term_runs.begin(), term_runs.end()) &&
              std::is_sorted(run_begins.begin(), run_begins.end()) &&
              (n_runs == 0 || run_begins[n_runs - 1] <= rows.size());
  std::size_t const n_pages = (n_rows() + kPageRows - 1) / kPageRows;
  for (std::size_t i = 0; fits && i < n_runs; ++i)
    fits =
        run_pages[i] < n_pages && run_greatest[i] >= 0.0f && run_greatest[i] <= kMostSparseWeight;
  if (!fits) throw Error(ErrorCode::kCorrupt, name, "expected postings of sparse rows, got others");
}

std::optional<SparseColumn::Run> SparseColumn::run_of(std::uint32_t term, Row page) const {
  auto const first = run_pages.begin() + term_runs[term];
  auto const last = run_pages.begin() + term_runs[term + 1];
  auto const found = std::lower_bound(first, last, page);
  if (found == last || *found != page) return std::nullopt;
  return run(static_cast<std::size_t>(found - run_pages.begin()));
}

float SparseColumn::weight_of(std::uint32_t term, Row row) const {
  std::optional<Run> const own = run_of(term, row / kPageRows);
  if (!own) return 0.0f;
  auto const wanted = static_cast<std::uint16_t>(row % kPageRows);
  auto const found = std::lower_bound(own->rows.begin(), own->rows.end(), wanted);
  if (found == own->rows.end() || *found != wanted) return 0.0f;
  return weight(own->begin + static_cast<std::size_t>(found - own->rows.begin()));
}

std::vector<HeldTerm> SparseColumn::held(std::span<SparseTerm const> query) const {
  std::vector<HeldTerm> out;
  std::size_t from = 0;  // both are in the order of their bytes
  for (SparseTerm const& one : query) {
    std::size_t end = terms.size();
    while (from < end) {
      std::size_t const middle = from + (end - from) / 2;
      if (terms[middle] < one.term) {
        from = middle + 1;
      } else {
        end = middle;
      }
    }
    if (from < terms.size() && terms[from] == one.term)
      out.push_back({static_cast<std::uint32_t>(from), one.weight});
  }
  return out;
}

float SparseColumn::score(std::span<HeldTerm const> query, Row row) const {
  double sum = 0.0;
  for (HeldTerm const& one : query) sum = sparse_sum(sum, one.weight, weight_of(one.number, row));
  auto const found = static_cast<float>(sum);
  // Only weights of a forged file give NaN, which would break the sort order of scores.
  return std::isnan(found) ? 0.0f : found;
}

std::shared_ptr<SparseColumn const> SparseColumn::build(std::string const& name, bool is_half,
                                                        Strings const& terms,
                                                        std::span<std::int64_t const> begins,
                                                        std::span<std::uint32_t const> numbers,
                                                        std::span<std::uint8_t const> weights,
                                                        std::span<std::uint32_t const> order) {
  std::size_t const width = is_half ? 2 : 4;
  bool const fits = begins.size() == order.size() + 1 && begins.front() == 0 &&
                    static_cast<std::size_t>(begins.back()) == numbers.size() &&
                    std::is_sorted(begins.begin(), begins.end()) &&
                    weights.size() == numbers.size() * width;
  require(fits, "where the terms of each row begin");
  // Where the postings of each term begin, then where the next one goes.
  std::vector<std::size_t> next(terms.size() + 1, 0);
  std::vector<std::uint8_t> counts(numbers.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    for (auto i = static_cast<std::size_t>(begins[r]); i < static_cast<std::size_t>(begins[r + 1]);
         ++i) {
      require(numbers[i] < terms.size(), "known terms");
      float const value = weight_at(is_half, weights.data() + i * width);
      if (value >= kLeastSparseWeight && value <= kMostSparseWeight) {
        counts[i] = 1;
        ++next[numbers[i] + 1];
      } else {
        counts_as_weight(value, name, terms[numbers[i]], "row " + std::to_string(r));
      }
    }
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Row> rows(next.back());
  std::vector<std::uint8_t> sorted(rows.size() * width);
  for (std::size_t to = 0; to < order.size(); ++to) {
    require(order[to] < order.size(), "an order of the rows");
    if (to % kRowsAtOnce == 0) poll_interrupt();
    for (auto i = static_cast<std::size_t>(begins[order[to]]);
         i < static_cast<std::size_t>(begins[order[to] + 1]); ++i) {
      if (counts[i] == 0) continue;
      std::size_t const at = next[numbers[i]]++;
      rows[at] = static_cast<Row>(to);
      std::memcpy(sorted.data() + at * width, weights.data() + i * width, width);
    }
  }
  Postings postings(is_half, order.size(), rows.size());
  std::size_t begin = 0;
  for (std::size_t term = 0; term < terms.size(); ++term) {
    if (term % kTermsAtOnce == 0) poll_interrupt();
    std::size_t const end = next[term];
    for (std::size_t e = begin; e < end; ++e) {
      if (e > begin && rows[e] == rows[e - 1])
        throw Error(ErrorCode::kOption, name,
                    "expected each term once, got '" + std::string(terms[term]) +
                        "' twice in row " + std::to_string(order[rows[e]]));
      postings.add(rows[e], sorted.data() + e * width);
    }
    postings.end_term(terms[term]);
    begin = end;
  }
  return std::move(postings).finish();
}

std::shared_ptr<SparseColumn const> SparseColumn::merge(
    std::span<SparseColumn const* const> sources, std::span<std::uint32_t const> source,
    std::span<Row const> source_row) {
  struct Taken {
    Row from, to;
  };
  std::vector<std::vector<Taken>> taken(sources.size());  // by source, rising in `from`
  std::size_t most = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    taken[source[i]].push_back({source_row[i], static_cast<Row>(i)});
    most += sources[source[i]]->sizes[source_row[i]];
  }
  struct SourceTerm {
    std::string_view term;
    std::uint32_t source, number;
  };
  std::vector<SourceTerm> all;
  for (std::uint32_t s = 0; s < sources.size(); ++s) {
    require(sources[s]->is_half == sources.front()->is_half, "columns of one type");
    std::sort(taken[s].begin(), taken[s].end(),
              [](Taken const& a, Taken const& b) { return a.from < b.from; });
    for (std::uint32_t t = 0; !taken[s].empty() && t < sources[s]->terms.size(); ++t)
      all.push_back({sources[s]->terms[t], s, t});
  }
  std::sort(all.begin(), all.end(), [](SourceTerm const& a, SourceTerm const& b) {
    return a.term != b.term ? a.term < b.term : a.source < b.source;
  });
  // Sizes of a forged file may say anything.
  std::size_t held = 0;
  for (SparseColumn const* one : sources) held += one->rows.size();
  Postings postings(sources.front()->is_half, source.size(), std::min(most, held));
  struct Found {
    Row to;
    std::uint8_t const* weight;
  };
  std::vector<Found> found;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (at % kTermsAtOnce == 0) poll_interrupt();
    SparseColumn const& from = *sources[all[at].source];
    std::vector<Taken> const& wanted = taken[all[at].source];
    auto next = wanted.begin();
    auto const add = [&](std::size_t posting, Row to) {
      found.push_back({to, from.weights.data() + posting * from.item_bytes()});
    };
    for (std::size_t r = from.term_runs[all[at].number]; r < from.term_runs[all[at].number + 1];
         ++r) {
      Run const run = from.run(r);
      Row const first = run.page * kPageRows;
      next = std::partition_point(next, wanted.end(),
                                  [&](Taken const& one) { return one.from < first; });
      auto const last = std::partition_point(
          next, wanted.end(), [&](Taken const& one) { return one.from / kPageRows == run.page; });
      bool const are_few = static_cast<std::size_t>(last - next) * kFewRows < run.rows.size();
      auto place = run.rows.begin();
      for (; next != last; ++next) {
        auto const row = static_cast<std::uint16_t>(next->from - first);
        if (are_few) {
          place = std::lower_bound(place, run.rows.end(), row);
        } else {
          while (place != run.rows.end() && *place < row) ++place;
        }
        if (place != run.rows.end() && *place == row)
          add(run.begin + static_cast<std::size_t>(place - run.rows.begin()), next->to);
      }
    }
    if (at + 1 < all.size() && all[at + 1].term == all[at].term) continue;
    auto const by_row = [](Found const& a, Found const& b) { return a.to < b.to; };
    if (!std::is_sorted(found.begin(), found.end(), by_row))
      std::sort(found.begin(), found.end(), by_row);
    for (Found const& one : found) postings.add(one.to, one.weight);
    postings.end_term(all[at].term);
    found.clear();
  }
  return std::move(postings).finish();
}

}  // namespace hyrecall
