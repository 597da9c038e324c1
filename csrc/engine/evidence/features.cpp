#include "engine/evidence/features.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>

#include "core/age.hpp"
#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/fusion_math.hpp"
#include "core/parallel.hpp"
#include "engine/evidence/snapshot_threads.hpp"

namespace hyrecall {
namespace {

using Kind = LinearTerm::Kind;

constexpr std::size_t kNamesakes = 3;  // candidates whose tags are compared with those of each row

bool has_value(AttributeColumn const& column, Row row) {
  return column.valid_in(row / kTileRows).test(row % kTileRows);
}

// The code of the only row of `wanted` in a column of its type; none if no row can have it.
std::optional<std::int64_t> code_in(AttributeColumn const& column, AttributeColumn const& wanted) {
  require(column.kind == wanted.kind && !column.is_list, "a column of the wanted value's type");
  if (column.kind == CodeKind::kText) return column.find(wanted.dictionary[0]);
  bool const is_nan = column.kind == CodeKind::kFloat && wanted.codes[0] == kNanCode;
  return is_nan ? std::nullopt : std::optional(wanted.codes[0]);
}

void check(FeatureLists const& lists, LinearRules const& rules, std::size_t n_given) {
  std::size_t const n = lists.size();
  require(lists.scores.size() == n * lists.n_arms && lists.ranks.size() == n * lists.n_arms &&
              lists.ties.size() == n && lists.segment.size() == n && lists.row.size() == n &&
              lists.given.size() == n * n_given,
          "values of every entry");
  for (auto const& arm : rules.arms) {
    for (std::size_t const column : arm) require(column < lists.n_arms, "columns of scores");
  }
  for (LinearTerm const& term : rules.terms) {
    bool const is_of_arm = term.kind == Kind::kScore || term.kind == Kind::kRank;
    if (is_of_arm) require(term.at < rules.arms.size(), "an arm");
    if (term.kind == Kind::kAgreement) require(term.at <= rules.arms.size(), "as many arms");
    if (term.kind == Kind::kGiven) require(term.at < n_given, "a given value");
    if (term.kind == Kind::kValue)
      require(term.wanted != nullptr && term.wanted->codes.size() == 1 && !term.wanted->is_list &&
                  has_value(*term.wanted, 0),
              "a wanted value");
    if (term.steps != 0) require(lists.stands.size() == n, "threads of every entry");
    if (!term.reads_column()) continue;
    require(term.at < lists.columns.size(), "a column");
    for (AttributeColumn const* column : lists.columns[term.at]) {
      bool const is_text = column->kind == CodeKind::kText;
      if (term.kind == Kind::kAge)
        require(column->kind == CodeKind::kInteger && !column->is_list, "a column of times");
      if (term.kind == Kind::kShared) require(is_text, "a column of strings");
    }
  }
}

// The candidates of one query.
class Candidates {
 public:
  Candidates(FeatureLists const& lists, LinearRules const& rules, std::size_t query)
      : lists_(lists),
        rules_(rules),
        begin_(static_cast<std::size_t>(lists.offsets[query])),
        n_(static_cast<std::size_t>(lists.offsets[query + 1]) - begin_) {
    scale_scores();
  }

  std::size_t begin() const { return begin_; }
  std::size_t size() const { return n_; }

  // What a term's feature gives each candidate; out: zeros.
  void read(LinearTerm const& term, std::span<double> out) {
    switch (term.kind) {
      case Kind::kFused:
        for (std::size_t i = 0; i < n_; ++i) out[i] = lists_.fused[begin_ + i];
        break;
      case Kind::kAgreement:
        read_agreement(term.at, out);
        break;
      case Kind::kScore:
        read_scores(term, out);
        break;
      case Kind::kRank:
        for (std::size_t i = 0; i < n_; ++i) out[i] = inverse_rank(term.at, i);
        break;
      case Kind::kGiven: {
        std::size_t const n_given = lists_.given.size() / lists_.size();
        for (std::size_t i = 0; i < n_; ++i) {
          double const value = lists_.given[(begin_ + i) * n_given + term.at];
          out[i] = std::isnan(value) ? 0.0 : value;
        }
        break;
      }
      case Kind::kValue:
        read_values(term, out);
        break;
      case Kind::kAge:
        for (std::size_t i = 0; i < n_; ++i) {
          auto const [column, row] = cell(term.at, i);
          double const age = has_value(column, row)
                                 ? age_seconds(column.codes[row], term.tick, lists_.now)
                                 : std::nan("");
          out[i] = recency_factor(age, term.half_life, 1.0);
        }
        break;
      case Kind::kShared:
        read_shared(term.at, out);
        break;
    }
  }

 private:
  struct Cell {
    AttributeColumn const& column;
    Row row;
  };
  Cell cell(std::size_t column, std::size_t i) const {
    return {*lists_.columns[column][lists_.segment[begin_ + i]], lists_.row[begin_ + i]};
  }

  // To [0, 1] over the candidates; 0 where there is none, and in an arm that lists none of them.
  void scale_scores() {
    std::size_t const n_arms = lists_.n_arms;
    scaled_.assign(n_ * n_arms, 0.0);
    is_heard_.assign(n_arms, false);
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      ScoreRange range;
      for (std::size_t i = 0; i < n_; ++i) {
        std::size_t const at = (begin_ + i) * n_arms + arm;
        is_heard_[arm] = is_heard_[arm] || lists_.ranks[at] > 0;
        if (std::isfinite(lists_.scores[at])) range.add(lists_.scores[at]);
      }
      for (std::size_t i = 0; is_heard_[arm] && i < n_; ++i) {
        float const score = lists_.scores[(begin_ + i) * n_arms + arm];
        if (std::isfinite(score))
          scaled_[i * n_arms + arm] = minmax_scale(score, range.low, range.high);
      }
    }
  }

  double score(std::size_t arm, std::size_t i) const {
    double best = 0.0;
    for (std::size_t const column : rules_.arms[arm])
      best = std::max(best, scaled_[i * lists_.n_arms + column]);
    return best;
  }

  double inverse_rank(std::size_t arm, std::size_t i) const {
    double best = 0.0;
    for (std::size_t const column : rules_.arms[arm]) {
      std::int32_t const rank = lists_.ranks[(begin_ + i) * lists_.n_arms + column];
      if (rank > 0) best = std::max(best, 1.0 / rank);
    }
    return best;
  }

  void read_agreement(std::size_t n_arms, std::span<double> out) const {
    bool is_any = false;
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      auto const& columns = rules_.arms[arm];
      bool const is_heard = std::any_of(columns.begin(), columns.end(),
                                        [&](std::size_t column) { return is_heard_[column]; });
      for (std::size_t i = 0; is_heard && i < n_; ++i)
        out[i] = is_any ? std::min(out[i], score(arm, i)) : score(arm, i);
      is_any = is_any || is_heard;
    }
  }

  void read_scores(LinearTerm const& term, std::span<double> out) {
    if (term.steps == 0) {
      for (std::size_t i = 0; i < n_; ++i) out[i] = score(term.at, i);
      return;
    }
    if (line_.empty()) sort_line();
    for (std::size_t place = 0; place < line_.size(); ++place) {
      std::size_t const other = place + static_cast<std::size_t>(term.steps);  // wraps below 0
      if (other >= line_.size() || line_[other] >> 32 != line_[place] >> 32) continue;
      out[entry(place)] = score(term.at, entry(other));
    }
  }

  // By thread, each in its order, without the candidates in none.
  void sort_line() {
    std::span<Stand const> const stands = std::span(lists_.stands).subspan(begin_, n_);
    for (std::size_t i = 0; i < n_; ++i) {
      if (stands[i].thread != kNone32) line_.push_back(std::uint64_t{stands[i].thread} << 32 | i);
    }
    std::sort(line_.begin(), line_.end());
    for (auto begin = line_.begin(); begin != line_.end();) {
      auto const end = std::find_if(
          begin, line_.end(), [begin](std::uint64_t other) { return other >> 32 != *begin >> 32; });
      std::sort(begin, end, [stands](std::uint64_t a, std::uint64_t b) {
        return stands[a & kNone32].key < stands[b & kNone32].key;
      });
      begin = end;
    }
  }
  std::size_t entry(std::size_t place) const { return line_[place] & kNone32; }

  void read_values(LinearTerm const& term, std::span<double> out) const {
    std::vector<AttributeColumn const*> const& columns = lists_.columns[term.at];
    std::vector<std::optional<std::int64_t>> codes;
    for (AttributeColumn const* column : columns) codes.push_back(code_in(*column, *term.wanted));
    for (std::size_t i = 0; i < n_; ++i) {
      auto const [column, row] = cell(term.at, i);
      auto const& code = codes[lists_.segment[begin_ + i]];
      out[i] = code && column.codes[row] == *code && has_value(column, row) ? 1.0 : 0.0;
    }
  }

  // Each tag once, in the order of bytes.
  void read_tags(std::size_t at, std::size_t i, std::vector<std::string_view>& out) const {
    out.clear();
    auto const [column, row] = cell(at, i);
    if (!has_value(column, row)) return;
    std::size_t const first = column.is_list ? static_cast<std::size_t>(column.offsets[row]) : row;
    std::size_t const end =
        column.is_list ? static_cast<std::size_t>(column.offsets[row + 1]) : first + 1;
    for (std::size_t tag = first; tag < end; ++tag)
      out.push_back(column.dictionary[static_cast<std::size_t>(column.codes[tag])]);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }

  void read_shared(std::size_t column, std::span<double> out) const {
    std::span<double const> const fused = lists_.fused.subspan(begin_, n_);
    std::vector<std::size_t> best(n_);
    std::iota(best.begin(), best.end(), std::size_t{0});
    // One more, for the rows that are among the best themselves.
    auto const end = best.begin() + static_cast<std::ptrdiff_t>(std::min(n_, kNamesakes + 1));
    std::partial_sort(best.begin(), end, best.end(), [&](std::size_t a, std::size_t b) {
      if (fused[a] != fused[b]) return fused[a] > fused[b];
      return lists_.ties[begin_ + a] < lists_.ties[begin_ + b];
    });
    best.erase(end, best.end());
    std::vector<std::vector<std::string_view>> tags(best.size());
    for (std::size_t place = 0; place < best.size(); ++place)
      read_tags(column, best[place], tags[place]);
    std::vector<std::string_view> own, common;
    for (std::size_t i = 0; i < n_; ++i) {
      read_tags(column, i, own);
      std::size_t n_compared = 0;
      for (std::size_t place = 0; place < best.size() && n_compared < kNamesakes; ++place) {
        if (best[place] == i) continue;
        ++n_compared;
        common.clear();
        std::set_intersection(own.begin(), own.end(), tags[place].begin(), tags[place].end(),
                              std::back_inserter(common));
        if (common.empty()) continue;
        std::size_t const either = own.size() + tags[place].size() - common.size();
        double const share = static_cast<double>(common.size()) / static_cast<double>(either);
        out[i] = std::max(out[i], fused[best[place]] * share);
      }
    }
  }

  FeatureLists const& lists_;
  LinearRules const& rules_;
  std::size_t begin_, n_;
  std::vector<double> scaled_;       // [n, n_arms]
  std::vector<bool> is_heard_;       // [n_arms]
  std::vector<std::uint64_t> line_;  // thread << 32 | candidate, once it was asked for
};

}  // namespace

WeightedSums weigh_features(FeatureLists const& lists, LinearRules const& rules, int threads) {
  std::size_t const n = lists.size(), n_terms = rules.terms.size();
  if (n == 0) return {};
  check(lists, rules, lists.given.size() / n);
  WeightedSums out{std::vector<double>(n * n_terms), std::vector<double>(n)};
  parallel_for(lists.offsets.size() - 1, threads, [&](int, std::size_t query) {
    Candidates own(lists, rules, query);
    std::vector<double> values;
    for (std::size_t term = 0; term < n_terms; ++term) {
      values.assign(own.size(), 0.0);
      own.read(rules.terms[term], values);
      for (std::size_t i = 0; i < own.size(); ++i)
        out.addends[(own.begin() + i) * n_terms + term] = rules.terms[term].weight * values[i];
    }
    for (std::size_t at = own.begin(); at < own.begin() + own.size(); ++at) {
      double const* const addends = out.addends.data() + at * n_terms;
      values.assign(addends, addends + n_terms);
      out.scores[at] = sum_largest_first(values) + 0.0;  // no -0
    }
  });
  return out;
}

LinearScores score_by_features(Snapshot const& snapshot, LinearRules const& rules,
                               GroupParams const& page, std::int64_t now, int threads,
                               ReplyArrays& reply) {
  std::size_t const n = reply.row.size();
  LinearScores out{n, reply.fused, {}, {}};
  if (reply.fused.empty()) out.fused.assign(reply.score.begin(), reply.score.end());
  std::vector<Seq> seqs(n);
  for (std::size_t at = 0; at < n; ++at)
    seqs[at] = snapshot.segments[reply.segment[at]]->segment().p.seqs[reply.row[at]];
  FeatureLists lists{reply.offsets,    n == 0 ? 0 : reply.arm_scores.size() / n,
                     reply.arm_scores, reply.arm_ranks,
                     out.fused,        seqs,
                     reply.addends,    reply.segment,
                     reply.row};
  lists.now = now;
  SnapshotThreads const* threads_known = nullptr;
  for (LinearTerm const& term : rules.terms) {
    if (term.steps != 0) threads_known = &threads_of(snapshot);
    if (!term.reads_column()) continue;
    lists.columns.resize(std::max(lists.columns.size(), term.at + 1));
    if (!lists.columns[term.at].empty()) continue;
    for (auto const& view : snapshot.segments) {
      Segment::Parts const& parts = view->segment().p;
      require(term.at < parts.attributes.size(), "an attribute column");
      lists.columns[term.at].push_back(parts.attributes[term.at].get());
    }
  }
  for (std::size_t at = 0; threads_known != nullptr && at < n; ++at) {
    DocRef const doc{reply.segment[at], reply.row[at]};
    lists.stands.push_back(
        {threads_known->of(doc), threads_known->table(doc.segment).key(doc.row)});
  }
  WeightedSums made = weigh_features(lists, rules, threads);
  std::copy(made.scores.begin(), made.scores.end(), reply.score.begin());
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> ranks;
  std::vector<std::size_t> kept, line;
  for (std::size_t query = 0; query + 1 < reply.offsets.size(); ++query) {
    auto const begin = static_cast<std::size_t>(reply.offsets[query]);
    line.resize(static_cast<std::size_t>(reply.offsets[query + 1]) - begin);
    std::iota(line.begin(), line.end(), begin);
    std::size_t const end = std::min(line.size(), page.offset + page.limit);
    std::partial_sort(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end), line.end(),
                      [&](std::size_t a, std::size_t b) {
                        double const x = made.scores[a], y = made.scores[b];
                        return x != y ? x > y : seqs[a] < seqs[b];
                      });
    for (std::size_t i = page.offset; i < end; ++i) {
      kept.push_back(line[i]);
      out.seqs.push_back(seqs[line[i]]);
      ranks.push_back(static_cast<std::int32_t>(i + 1));
    }
    offsets.push_back(static_cast<std::int64_t>(kept.size()));
  }
  take_hits(reply, kept, ranks, std::move(offsets));
  take_entries(out.fused, kept, n);
  out.addends = std::move(made.addends);
  take_entries(out.addends, kept, n);
  return out;
}

}  // namespace hyrecall
