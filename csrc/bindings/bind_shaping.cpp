// Binds the shaping stages: from the lists of a batch to their new order and the stage's values.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/age.hpp"
#include "core/by_query.hpp"
#include "core/formulas.hpp"
#include "core/fp_env.hpp"
#include "engine/dense/column.hpp"
#include "engine/evidence/features.hpp"
#include "engine/evidence/feedback.hpp"
#include "engine/shaping/shaping.hpp"

namespace py = pybind11;
using py::literals::operator""_a;

namespace hyrecall::bindings {
namespace {

// Borrows the arrays of the lists and checks that they fit each other and the execution.
class HeldFusedLists {
 public:
  HeldFusedLists(Array<std::int64_t> const& offsets, Array<double> scores,
                 Array<std::uint32_t> segment, Array<std::uint32_t> row)
      : scores_(std::move(scores)),
        segment_(std::move(segment)),
        row_(std::move(row)),
        by_query_(offsets.size() == 0 ? 0 : static_cast<std::size_t>(offsets.size()) - 1,
                  span_of(offsets), span_of(scores_)),
        view_{by_query_.offsets(), span_of(scores_), span_of(segment_), span_of(row_)} {
    require(view_.segment.size() == size() && view_.row.size() == size(), "one row an entry");
  }
  HeldFusedLists(HeldFusedLists const&) = delete;  // the view refers to the members
  HeldFusedLists& operator=(HeldFusedLists const&) = delete;

  std::size_t size() const { return view_.scores.size(); }
  FusedListsView const& view() const { return view_; }

  // Stages read vectors of rows, so each row must be visible to its query.
  void check_rows(HeldExecution const& held, std::size_t column) const {
    require_column(held, column);
    require(view_.n_queries() == held.request->n_queries, "the queries of the execution");
    for (std::size_t q = 0; q < view_.n_queries(); ++q) {
      auto const end = static_cast<std::size_t>(view_.offsets[q + 1]);
      for (auto i = static_cast<std::size_t>(view_.offsets[q]); i < end; ++i)
        held.execution->require_authorised(q, {view_.segment[i], view_.row[i]});
    }
  }

  static void require_column(HeldExecution const& held, std::size_t column) {
    for (auto const& segment : held.snapshot->segments) {
      auto const& dense = segment->segment().p.dense;
      require(column < dense.size() && !dense[column]->has_many(), "a column of one vector a row");
    }
  }

 private:
  Array<double> scores_;
  Array<std::uint32_t> segment_;
  Array<std::uint32_t> row_;
  ByQuery<double> by_query_;
  FusedListsView view_;
};

py::tuple give_selected(Selected selected) {
  return py::make_tuple(give(std::move(selected.offsets)), give(std::move(selected.entries)));
}

RelevanceScale take_relevance_scale(std::string const& name) {
  if (name == "raw") return RelevanceScale::kRaw;
  return name == "minmax" ? RelevanceScale::kMinMax : RelevanceScale::kMax;
}

py::tuple order(HeldFusedLists const& lists, std::vector<Array<std::int64_t>> const& ties,
                int threads) {
  std::vector<std::span<std::int64_t const>> spans;
  for (auto const& tie : ties) {
    spans.push_back(span_of(tie));
    require(spans.back().size() == lists.size(), "one tie-break value an entry");
  }
  Selected ordered;
  {
    NativeRun const run;
    ordered = order_lists(lists.view(), spans, threads);
  }
  return give_selected(std::move(ordered));
}

py::dict dedup(HeldFusedLists const& lists, HeldExecution const& execution, std::size_t column,
               double threshold, bool unit, Array<std::int64_t> const& preference) {
  DedupParams const params{column, threshold, unit, span_of(preference)};
  require(params.preference.empty() || params.preference.size() == lists.size(),
          "one preference an entry");
  Deduped found;
  {
    NativeRun const run;
    lists.check_rows(execution, column);
    found = dedup_lists(*execution.snapshot, lists.view(), params, execution.request->threads);
  }
  return py::dict("kept"_a = give_selected(std::move(found.kept)),
                  "duplicates"_a = give(std::move(found.duplicates)),
                  "kept_for"_a = give(std::move(found.kept_for)));
}

py::dict diversify(HeldFusedLists const& lists, HeldExecution const& execution,
                   std::optional<std::size_t> column, double relevance_weight,
                   std::string const& relevance, std::size_t n_wanted,
                   Array<std::int64_t> const& tokens, Array<std::int64_t> const& budgets) {
  DiversifyParams const params{
      column.has_value(), column.value_or(0), relevance_weight, take_relevance_scale(relevance),
      n_wanted,           span_of(tokens),    span_of(budgets)};
  require(params.tokens.empty() || (params.tokens.size() == lists.size() &&
                                    params.budgets.size() == lists.view().n_queries()),
          "tokens an entry and a budget a query");
  Diversified found;
  {
    NativeRun const run;
    if (column) lists.check_rows(execution, *column);
    found = diversify_lists(*execution.snapshot, lists.view(), params, execution.request->threads);
  }
  return py::dict("chosen"_a = give_selected(std::move(found.chosen)),
                  "value"_a = give(std::move(found.value)),
                  "relevance"_a = give(std::move(found.relevance)),
                  "similarity"_a = give(std::move(found.similarity)),
                  "nearest"_a = give(std::move(found.nearest)));
}

float cosine_of_rows(HeldExecution const& held, std::size_t column, std::size_t query,
                     std::pair<std::uint32_t, Row> const& one,
                     std::pair<std::uint32_t, Row> const& other) {
  HeldFusedLists::require_column(held, column);
  for (auto const& [segment, row] : {one, other})
    held.execution->require_authorised(query, {segment, row});
  auto const column_of = [&](std::uint32_t segment) -> DenseColumn const& {
    return *held.snapshot->segments[segment]->segment().p.dense[column];
  };
  return row_cosine(column_of(one.first), one.second, column_of(other.first), other.second);
}

// What second_look() gives: per dense arm (vectors, bytes: present, bytes: moved), per lexical arm
// (offsets, terms, boosts).
py::tuple look_again(HeldExecution const& held, Array<std::int64_t> const& offsets,
                     Array<std::uint32_t> const& segment, Array<std::uint32_t> const& row,
                     double dense, std::size_t n_terms, double lexical) {
  std::size_t const n_queries = held.request->n_queries;
  ByQuery<Row> const rows(n_queries, span_of(offsets), span_of(row));
  require(segment.size() == row.size(), "one row a document");
  SecondLook look;
  {
    NativeRun const run;
    look = held.execution->second_look({rows.offsets(), span_of(segment), span_of(row)},
                                       {dense, n_terms, lexical});
  }
  py::list vectors, terms;
  for (std::size_t arm = 0; arm < look.vectors.size(); ++arm) {
    MovedVectors& own = look.vectors[arm];
    py::array const values = give(std::move(own.values));
    std::uint32_t const dim = held.request->dense[arm].queries->dim();
    vectors.append(py::make_tuple(values.attr("reshape")(n_queries, dim),
                                  give(std::move(own.present)), give(std::move(own.moved))));
  }
  for (auto const& arm : look.terms) {
    std::vector<std::int64_t> ends{0};
    std::vector<double> boosts;
    py::list names;
    for (auto const& query : arm) {
      for (TextQuery::AddedTerm const& one : query) {
        names.append(py::str(one.term));
        boosts.push_back(one.boost);
      }
      ends.push_back(static_cast<std::int64_t>(boosts.size()));
    }
    terms.append(py::make_tuple(give(std::move(ends)), names, give(std::move(boosts))));
  }
  return py::make_tuple(vectors, terms);
}

using GivenVectors = std::pair<Array<float>, Array<std::uint8_t>>;
using GivenTerms = std::tuple<Array<std::int64_t>, std::vector<std::string>, std::vector<double>>;

std::shared_ptr<BatchRequest> asked_again(BatchRequest const& request,
                                          std::vector<GivenVectors> const& vectors,
                                          std::vector<GivenTerms> const& terms) {
  SecondLook look;
  for (std::size_t arm = 0; arm < vectors.size(); ++arm) {
    auto const& [values, present] = vectors[arm];
    require(arm < request.dense.size() && request.dense[arm].queries != nullptr &&
                values.ndim() == 2 &&
                static_cast<std::size_t>(values.shape(0)) == request.n_queries &&
                static_cast<std::uint32_t>(values.shape(1)) == request.dense[arm].queries->dim(),
            "vectors for each dense arm");
    auto const taken = span_of(values);
    auto const there = span_of(present);
    look.vectors.push_back({{taken.begin(), taken.end()}, {there.begin(), there.end()}, {}});
  }
  for (auto const& [offsets, names, boosts] : terms) {
    ByQuery<double> const by_query(request.n_queries, span_of(offsets), std::span(boosts));
    require(names.size() == boosts.size(), "a boost for each term");
    auto& arm = look.terms.emplace_back(request.n_queries);
    for (std::size_t q = 0; q < request.n_queries; ++q) {
      std::size_t const begin = by_query.begin(q);
      for (std::size_t i = 0; i < by_query[q].size(); ++i) {
        require(boosts[begin + i] >= 0x1p-20 && boosts[begin + i] <= 0x1p20,
                "a boost in its range");
        arm[q].push_back({names[begin + i], boosts[begin + i]});
      }
    }
  }
  NativeRun const run;
  return std::make_shared<BatchRequest>(ask_again(request, std::move(look)));
}

using GivenTerm = std::tuple<int, std::size_t, std::int64_t, std::int64_t, double,
                             std::shared_ptr<AttributeColumn>, double>;

LinearRules take_rules(std::vector<GivenTerm> const& terms,
                       std::vector<std::vector<std::size_t>> arms) {
  LinearRules out{{}, std::move(arms)};
  for (auto const& [kind, at, steps, tick, half_life, wanted, weight] : terms) {
    require(kind >= 0 && kind <= static_cast<int>(LinearTerm::Kind::kShared), "a kind of feature");
    out.terms.push_back(
        {static_cast<LinearTerm::Kind>(kind), at, steps, tick, half_life, wanted, weight});
  }
  return out;
}

using GivenStands = std::tuple<Array<std::uint32_t>, Array<std::int64_t>, Array<Seq>>;

// A row of the columns is an entry of the lists.
py::tuple weigh(LinearRules const& rules, Array<std::int64_t> const& offsets,
                Array<float> const& scores, Array<std::int32_t> const& ranks,
                Array<double> const& fused, Array<std::int64_t> const& ties,
                Array<double> const& given,
                std::vector<std::shared_ptr<AttributeColumn>> const& columns,
                std::optional<GivenStands> const& stands, std::int64_t now, int threads) {
  require(offsets.size() > 0 && scores.ndim() == 2, "offsets, and scores by arm");
  ByQuery<double> const by_query(static_cast<std::size_t>(offsets.size()) - 1, span_of(offsets),
                                 span_of(fused));
  std::size_t const n = span_of(fused).size();
  std::vector<std::uint32_t> const segment(n, 0);
  std::vector<Row> row(n);
  std::iota(row.begin(), row.end(), Row{0});
  FeatureLists lists{by_query.offsets(),
                     static_cast<std::size_t>(scores.shape(1)),
                     span_of(scores),
                     span_of(ranks),
                     span_of(fused),
                     span_of(ties),
                     span_of(given),
                     segment,
                     row};
  lists.now = now;
  for (auto const& column : take_all(columns)) {
    require(column->n_rows == n, "a value of every entry");
    lists.columns.push_back({column.get()});
  }
  if (stands) {
    auto const& [thread, place, seq] = *stands;
    require(span_of(thread).size() == n && span_of(place).size() == n && span_of(seq).size() == n,
            "a place of every entry");
    for (std::size_t at = 0; at < n; ++at)
      lists.stands.push_back({thread.data()[at], {false, place.data()[at], seq.data()[at]}});
  }
  WeightedSums made;
  {
    NativeRun const run;
    made = weigh_features(lists, rules, threads);
  }
  py::array const addends = give(std::move(made.addends));
  return py::make_tuple(addends.attr("reshape")(n, rules.terms.size()),
                        give(std::move(made.scores)));
}

double sum_of_addends(std::vector<double> addends) {
  return sum_largest_first(addends) + 0.0;
}

}  // namespace

void bind_shaping(py::module_& parent) {
  py::module_ m = parent.def_submodule("shaping", "Native shaping stages on a batch's lists.");
  py::class_<HeldFusedLists>(
      m, "FusedLists",
      "The fused lists of a batch: query q has entries offsets[q] to offsets[q + 1].")
      .def(py::init<Array<std::int64_t>, Array<double>, Array<std::uint32_t>,
                    Array<std::uint32_t>>(),
           "Borrow the arrays. The offsets are copied.", py::arg("offsets"), py::arg("scores"),
           py::arg("segment"), py::arg("row"));
  m.def("order", &order, "(offsets, entries) by (score desc, ties asc, place asc).",
        py::arg("lists"), py::arg("ties"), py::arg("threads"));
  m.def("dedup", &dedup, "Collapse near-duplicates: kept (offsets, entries), duplicates of each.",
        py::arg("lists"), py::arg("execution"), py::arg("column"), py::arg("threshold"),
        py::arg("unit"), py::arg("preference"));
  m.def("diversify", &diversify, "Choose by maximal marginal relevance, within a budget of tokens.",
        py::arg("lists"), py::arg("execution"), py::arg("column"), py::arg("relevance_weight"),
        py::arg("relevance"), py::arg("n_wanted"), py::arg("tokens"), py::arg("budgets"));

  m.def("second_look", &look_again,
        "Return what the best rows of each query add to it: for each dense arm (vectors, which "
        "queries have one, which were moved), for each lexical arm (offsets, terms, boosts). No "
        "arms of a kind: its queries stay.",
        py::arg("execution"), py::arg("offsets"), py::arg("segment"), py::arg("row"), py::kw_only(),
        py::arg("dense"), py::arg("n_terms"), py::arg("lexical"));
  m.def("asked_again", &asked_again,
        "Return the request with what second_look() added to its queries: for each dense arm "
        "(vectors, which queries have one), for each lexical arm (offsets, terms, boosts). An "
        "empty sequence leaves the queries of all these arms as they are.",
        py::arg("request"), py::arg("vectors"), py::arg("terms"));

  py::class_<LinearRules>(m, "LinearRules", "The features of a Linear, and their weights.")
      .def(py::init(&take_rules),
           "terms: (kind, at, steps, tick, half-life, wanted value as a column of one row, weight) "
           "each; arms: which columns of scores each has.",
           py::arg("terms"), py::arg("arms"));
  m.def("weigh", &weigh,
        "Return weight x feature of each entry, [n_entries, n_terms], and the sums. given: "
        "[n_entries, n_given]; columns: of the entries; stands: thread, place and insertion number "
        "of each, where a term has steps; now: microseconds since 1970.",
        py::arg("rules"), py::arg("offsets"), py::arg("scores"), py::arg("ranks"), py::arg("fused"),
        py::arg("ties"), py::arg("given"), py::arg("columns"), py::arg("stands"), py::arg("now"),
        py::arg("threads"));

  py::call_guard<FpEnvGuard> const guarded;
  m.def("sum_addends", &sum_of_addends, "The sum of an entry's products, the largest first.",
        py::arg("addends"), guarded);
  m.def("age_seconds", py::vectorize(&age_seconds),
        "Seconds from a time, in ticks of so many nanoseconds, to now, in microseconds.",
        py::arg("time"), py::arg("tick"), py::arg("now"), guarded);
  m.def("exp2", &exp2_negative, "2^x for x <= 0.", py::arg("x"), guarded);
  m.def("recency_factors", py::vectorize(&recency_factor),
        "How much of a score age leaves: all at age 0, half at the half-life.", py::arg("age"),
        py::arg("half_life"), py::arg("exponent"), guarded);
  m.def("composite_sums", py::vectorize(&composite_sum), "The weighted sum of three signals.",
        py::arg("recency_weight"), py::arg("recency"), py::arg("importance_weight"),
        py::arg("importance"), py::arg("relevance_weight"), py::arg("relevance"), guarded);
  m.def("composite_means", py::vectorize(&composite_mean), "The weighted mean, from the sum.",
        py::arg("sum"), py::arg("total_weight"), guarded);
  m.def("mmr_value", &mmr_value, "Maximal marginal relevance of an entry.",
        py::arg("relevance_weight"), py::arg("relevance"), py::arg("similarity"), guarded);
  m.def("row_cosine", &cosine_of_rows,
        "Cosine of two rows (segment, row) that a query may see, the first as query; 0 if either "
        "has no vector.",
        py::arg("execution"), py::arg("column"), py::arg("query"), py::arg("one"), py::arg("other"),
        guarded);
}

}  // namespace hyrecall::bindings
