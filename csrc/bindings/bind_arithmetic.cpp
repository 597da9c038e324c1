// Binds the scoring formulas for explain() and for the golden table: from numbers to numbers,
// without documents.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/take.hpp"
#include "core/finite.hpp"
#include "core/formulas.hpp"
#include "core/fp_env.hpp"
#include "engine/dense/column.hpp"
#include "kernels/cpu/isa.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

double formula(std::string const& op, std::vector<double> const& numbers) {
  ArithmeticOp const taken = take_op(op);
  double arguments[kMaxArity] = {};
  if (numbers.size() > kMaxArity) {
    throw Error(ErrorCode::kShape, "numbers",
                "expected <= " + std::to_string(kMaxArity) + " numbers, got " +
                    std::to_string(numbers.size()));
  }
  std::copy(numbers.begin(), numbers.end(), arguments);
  return evaluate(taken, arguments);
}

// The impact of one posting; the engine chooses the formula once for many postings
// (Bm25Query::with_impact).
float impact(Bm25Numbers const& bm25, float weight, float shift, float term_freq,
             float length_norm) {
  Bm25 const p = take_bm25(bm25);
  if (p.variant == Bm25Variant::kPlus)
    return bm25_plus_impact(weight, shift, term_freq, length_norm);
  if (p.variant == Bm25Variant::kLong) {
    return bm25_long_impact(weight, term_freq, length_norm, static_cast<float>(p.k1),
                            static_cast<float>(p.delta));
  }
  return bm25_impact(weight, term_freq, length_norm);
}

// rows: [n, dim] float32, or 16-bit patterns of `dtype`.
py::array dots(Array<float> const& query, py::array const& rows, std::string const& dtype) {
  if (rows.ndim() != 2 || query.size() != rows.shape(1) ||
      (rows.flags() & py::array::c_style) == 0 || rows.itemsize() != (dtype == "float32" ? 4 : 2)) {
    throw Error(ErrorCode::kShape, "rows", "expected C-contiguous (n, len(query)) of " + dtype);
  }
  auto const n = static_cast<std::size_t>(rows.shape(0));
  auto const dim = static_cast<std::size_t>(rows.shape(1));
  std::vector<float> padded((dim + kLanes - 1) / kLanes * kLanes, 0.0f);
  std::copy(query.data(), query.data() + dim, padded.begin());
  std::vector<float> scores(n);
  cpu::DotKernels const& kernels = cpu::kernels().dot;
  if (dtype == "float32") {
    kernels.float32(padded.data(), static_cast<float const*>(rows.data()), n, dim, scores.data());
  } else {
    auto const* const bits = static_cast<std::uint16_t const*>(rows.data());
    (dtype == "float16" ? kernels.float16 : kernels.bfloat16)(padded.data(), bits, n, dim,
                                                              scores.data());
  }
  return give(std::move(scores));
}

// The rounding mode belongs to the thread, and a with block stays on one thread.
struct NearestRounding {
  std::optional<FpEnvGuard> guard;
};

void enter_rounding(NearestRounding& held) {
  held.guard.emplace();
}

void leave_rounding(NearestRounding& held, py::args const&) {
  held.guard.reset();
}

std::string isa_name() {
  return cpu::kernels().name;
}

bool are_all_finite(Array<float> const& values) {
  std::span<float const> const all = span_of(values);
  WithoutGil const nogil;
  return all_finite(all);
}

float inverse_norm_of_row(Array<float> const& row) {
  double const norm = row_norm(static_cast<std::size_t>(row.size()),
                               [&](std::size_t i) { return static_cast<double>(row.data()[i]); });
  return inverse_norm(norm);
}

double idf_of(std::string const& variant, std::int64_t n_docs, std::int64_t doc_freq) {
  return bm25_idf(take_variant(variant), n_docs, doc_freq);
}

float weight_of(Bm25Numbers const& bm25, double idf, double multiplicity) {
  return bm25_weight(take_bm25(bm25), idf, multiplicity);
}

float shift_of(Bm25Numbers const& bm25, double idf, double multiplicity) {
  return bm25_shift(take_bm25(bm25), idf, multiplicity);
}

float length_norm_of(Bm25Numbers const& bm25, std::uint32_t doc_length, double mean) {
  Bm25 const p = take_bm25(bm25);
  return bm25_length_norm(p, doc_length, {mean, p.b});
}

double b_of(Bm25Numbers const& bm25, std::int64_t n_docs, std::int64_t total_length,
            std::int64_t squared_length) {
  return bm25_b(take_bm25(bm25), length_share(n_docs, total_length, squared_length));
}

float add_floats(float a, float b) {
  return a + b;
}

double scale_by_distribution(double score, double mean, double deviation) {
  return dbsf_scale(score, {mean, deviation});
}

float sparse_score(std::vector<float> const& query, std::vector<float> const& row) {
  require(query.size() == row.size(), "a weight of the row for each of the query");
  double sum = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) sum = sparse_sum(sum, query[i], row[i]);
  return static_cast<float>(sum);
}

}  // namespace

void bind_arithmetic(py::module_& parent) {
  py::module_ m =
      parent.def_submodule("arithmetic", "The formulas of docs/scoring.md, bit for bit.");
  py::class_<NearestRounding>(m, "RoundToNearest",
                              "A with block with default rounding, whatever mode the host has set.")
      .def(py::init<>(), "Set nothing yet.")
      .def("__enter__", &enter_rounding, "Set default rounding on this thread.")
      .def("__exit__", &leave_rounding, "Set the mode that the thread had before.");
  // explain() repeats computations that the engine made under this guard.
  py::call_guard<FpEnvGuard> const guarded;
  m.def("isa", &isa_name, "The instruction set in use.");
  m.def("formula", &formula, "A formula of the golden table on float64 numbers.", py::arg("op"),
        py::arg("numbers"), guarded);
  m.def("log", &natural_log, "The natural logarithm.", py::arg("x"), guarded);
  m.def("dots", &dots, "The dot of a query with each row, float32.", py::arg("query"),
        py::arg("rows"), py::arg("dtype") = "float32", guarded);
  m.def("all_finite", &are_all_finite, "Return whether no value is NaN or infinite.",
        py::arg("values"));
  m.def("inverse_norm", &inverse_norm_of_row, "1 / |row|; 0 of a zero row.", py::arg("row"),
        guarded);
  m.def("cosine", &cosine, "The cosine of a dot, between -1 and 1.", py::arg("dot"),
        py::arg("inverse_row_norm"), py::arg("inverse_query_norm"), guarded);
  m.def(
      "max_sim",
      [](std::vector<float> const& greatest) { return max_sim(greatest.data(), greatest.size()); },
      "The score of a document of many vectors, from the greatest cosine of each query vector.",
      py::arg("greatest"), guarded);
  m.def(
      "sparse", &sparse_score,
      "The score of a sparse vector, from the weights of the terms that it shares with the query.",
      py::arg("query"), py::arg("row"), guarded);
  m.def("idf", &idf_of, "The inverse document frequency of a leaf.", py::arg("variant"),
        py::arg("n_docs"), py::arg("doc_freq"), guarded);
  m.def("mean_doc_length", &mean_doc_length, "The mean length of documents with a text.",
        py::arg("n_docs"), py::arg("total_length"), guarded);
  m.def("weight", &weight_of, "What a leaf's impacts are multiplied by, float32.", py::arg("bm25"),
        py::arg("idf"), py::arg("multiplicity"), guarded);
  m.def("shift", &shift_of, "What BM25+ adds for each leaf that a document holds, float32.",
        py::arg("bm25"), py::arg("idf"), py::arg("multiplicity"), guarded);
  m.def("bm25_b", &b_of, "The b of a scope whose documents have these lengths.", py::arg("bm25"),
        py::arg("n_docs"), py::arg("total_length"), py::arg("squared_length"), guarded);
  m.def("length_norm", &length_norm_of, "The length norm of a document, float32.", py::arg("bm25"),
        py::arg("doc_length"), py::arg("mean_doc_length"), guarded);
  m.def("impact", &impact, "What one leaf adds to the score of one document, float32.",
        py::arg("bm25"), py::arg("weight"), py::arg("shift"), py::arg("term_freq"),
        py::arg("length_norm"), guarded);
  m.def("add", &add_floats, "float32 addition, as term scores are summed.", py::arg("a"),
        py::arg("b"), guarded);
  m.def("rrf_term", &rrf_term, "What a rank in one arm adds to the fused score by RRF.",
        py::arg("weight"), py::arg("rank_constant"), py::arg("rank"), guarded);
  m.def("best_scale", &best_scale, "Scale a score by the best one of its list.", py::arg("score"),
        py::arg("high"), guarded);
  m.def("clip_scale", &clip_scale, "Cut a score into [0, 1].", py::arg("score"), guarded);
  m.def("unit_scale", &unit_scale, "Map a cosine to [0, 1].", py::arg("score"), guarded);
  m.def("dense_share", &dense_share, "The dense arms' share of a balanced sum.", py::arg("balance"),
        py::arg("mean_lexical"), py::arg("mean_dense"), guarded);
  m.def("minmax_scale", &minmax_scale, "Scale a score by the lowest and highest of the candidates.",
        py::arg("score"), py::arg("low"), py::arg("high"), guarded);
  m.def("dbsf_scale", &scale_by_distribution,
        "Scale a score by the mean and deviation of the candidates.", py::arg("score"),
        py::arg("mean"), py::arg("deviation"), guarded);
}

}  // namespace hyrecall::bindings
