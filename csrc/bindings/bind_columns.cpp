// Binds the columns of a segment (cells, keys, lexical and dense columns): building, merging, and
// conversion to and from the parts of a file.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/pages.hpp"
#include "engine/dense/column.hpp"
#include "engine/lexical/build.hpp"
#include "engine/lexical/check.hpp"
#include "engine/segment/cells.hpp"
#include "engine/segment/segment.hpp"
#include "text/analyzer.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

DType take_dtype(std::string const& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float16") return DType::kFloat16;
  if (name == "bfloat16") return DType::kBFloat16;
  throw Error(ErrorCode::kDtype, "dtype", "expected float32, float16 or bfloat16, got " + name);
}

char const* dtype_name(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : dtype == DType::kFloat16 ? "float16" : "bfloat16";
}

std::shared_ptr<CellDirectory> make_directory(py::list const& parts, std::size_t n_rows) {
  std::vector<CellPart> const taken = take_cell_parts(parts, n_rows);
  NativeRun const run;
  return std::make_shared<CellDirectory>(taken, n_rows);
}

py::array order_rows(py::list const& parts, std::size_t n_rows, Array<std::int64_t> const& cluster,
                     Array<Seq> const& seqs) {
  std::vector<CellPart> const taken = take_cell_parts(parts, n_rows);
  std::vector<std::uint32_t> order;
  {
    NativeRun const run;
    order = sort_rows(taken, n_rows, span_of(cluster), span_of(seqs));
  }
  return give(std::move(order));
}

void bind_cells(py::module_& m) {
  py::class_<CellDirectory, std::shared_ptr<CellDirectory>>(
      m, "CellDirectory", "The cells of a segment and the rows of each.")
      .def(py::init(&make_directory), "Read the cells of rows that are sorted by them.",
           py::arg("parts"), py::arg("n_rows"))
      .def_property_readonly("n_cells", &CellDirectory::size, "The number of cells.");
  m.def(
      "check_layout",
      [](py::handle array, std::string const& argument) {
        take_any_arrow(array, argument.c_str());
      },
      "Refuse an Arrow array with an offset or a length below 0, also inside it.", py::arg("array"),
      py::arg("argument"));
  m.def("sort_rows", &order_rows, "Return the rows in the order (cell, cluster, seq).",
        py::arg("parts"), py::arg("n_rows"), py::arg("cluster"), py::arg("seqs"));
}

// Converts pairs of numbers to an array twice as long, and back.
template <typename Pair>
Buffer<std::uint32_t> numbers_of(Buffer<Pair> const& pairs) {
  static_assert(sizeof(Pair) == 2 * sizeof(std::uint32_t));
  return {reinterpret_cast<std::uint32_t const*>(pairs.data()), pairs.size() * 2, pairs.owner()};
}
template <typename Pair>
Buffer<Pair> pairs_of(Buffer<std::uint32_t> const& numbers) {
  return {reinterpret_cast<Pair const*>(numbers.data()), numbers.size() / 2, numbers.owner()};
}

// Returns the parts of a lexical column by name, an array each, as a file stores them.
py::dict lexical_parts(LexicalColumn const& column) {
  LexicalColumn::Parts const& p = column.parts();
  py::dict out;
  out["doc_lengths"] = give(p.doc_lengths);
  out["term_offsets"] = give(p.terms.offsets);
  out["term_bytes"] = give(p.terms.bytes);
  out["posting_offsets"] = give(p.posting_offsets);
  out["posting_width"] = p.posting_width;
  out["postings"] = give(p.postings);
  out["run_offsets"] = give(p.run_offsets);
  out["runs"] = give(numbers_of(p.runs));
  out["escape_offsets"] = give(p.escape_offsets);
  out["escapes"] = give(numbers_of(p.escapes));
  out["forward_offsets"] = give(Buffer<std::uint64_t>(p.forward_offsets.wide()));
  out["forward_bytes"] = give(p.forward_bytes);
  return out;
}

// Makes a column from the parts of a file, all of which are checked.
std::shared_ptr<LexicalColumn> lexical_from_parts(std::string name, py::dict const& parts,
                                                  int threads, bool is_mapped, bool is_late) {
  auto const at = [&](char const* key) {
    if (!parts.contains(key)) throw Error(ErrorCode::kOption, key, "expected an array, got none");
    return py::array(parts[key]);
  };
  LexicalColumn::Parts p;
  p.name = std::move(name);
  p.doc_lengths = take_buffer<std::uint32_t>(at("doc_lengths"), "doc_lengths");
  p.terms = {take_buffer<std::int64_t>(at("term_offsets"), "term_offsets"),
             take_buffer<std::uint8_t>(at("term_bytes"), "term_bytes")};
  auto const offsets = take_buffer<std::uint64_t>(at("forward_offsets"), "forward_offsets");
  p.forward_bytes = take_buffer<std::uint8_t>(at("forward_bytes"), "forward_bytes");
  p.posting_offsets = take_buffer<std::uint64_t>(at("posting_offsets"), "posting_offsets");
  if (!parts.contains("posting_width"))
    throw Error(ErrorCode::kOption, "posting_width", "expected a number, got none");
  p.posting_width = parts["posting_width"].cast<std::uint32_t>();
  p.postings = take_buffer<std::uint8_t>(at("postings"), "postings");
  p.run_offsets = take_buffer<std::uint32_t>(at("run_offsets"), "run_offsets");
  p.runs = pairs_of<PostingRun>(take_buffer<std::uint32_t>(at("runs"), "runs"));
  p.escape_offsets = take_buffer<std::uint32_t>(at("escape_offsets"), "escape_offsets");
  p.escapes = pairs_of<PostingEscape>(take_buffer<std::uint32_t>(at("escapes"), "escapes"));
  NativeRun const run;
  auto column = std::make_shared<LexicalColumn>(std::move(p), offsets, is_mapped);
  if (!is_late) column->check(threads);
  return column;
}

void check_lexical_column(LexicalColumn& column, int threads) {
  NativeRun const run;
  column.check(threads);
}

std::shared_ptr<LexicalColumn> build_lexical_column(std::string const& name,
                                                    py::list const& columns,
                                                    std::vector<std::uint32_t> const& weights,
                                                    Array<std::uint32_t> const& order,
                                                    std::shared_ptr<text::Analyzer> const& analyzer,
                                                    int threads, py::object const& progress) {
  std::vector<Chunked<StringColumn>> taken(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (py::handle chunk : py::list(columns[c]))
      taken[c].append(take_strings(take_arrow(chunk, name.c_str()), name.c_str()));
  }
  Progress report;
  if (!progress.is_none())
    report = [&progress](std::size_t n_rows) { call_python([&] { progress(n_rows); }); };
  for (auto const& column : taken) {
    for (std::uint32_t row : span_of(order))
      require(row < column.size(), "an order of the texts' rows");
  }
  NativeRun const run;
  return std::const_pointer_cast<LexicalColumn>(
      build_lexical(name, taken, weights, span_of(order), *analyzer, threads, report));
}

std::shared_ptr<LexicalColumn> merge_lexical_columns(
    std::vector<std::shared_ptr<LexicalColumn>> const& sources, Array<std::uint32_t> const& source,
    Array<Row> const& source_row) {
  auto const from = take_all(sources);
  NativeRun const run;
  return std::const_pointer_cast<LexicalColumn>(
      merge_lexical(from, span_of(source), span_of(source_row)));
}

std::optional<std::uint32_t> doc_length_of(LexicalColumn const& column, Row row) {
  require(row < column.n_rows(), "a row of the column");
  return column.has(row) ? std::optional(column.doc_length(row)) : std::nullopt;
}

void bind_lexical(py::module_& m) {
  py::class_<LexicalColumn, std::shared_ptr<LexicalColumn>>(
      m, "LexicalColumn", "A lexical arm of one segment: terms, postings, and each row's tokens.")
      .def_static(
          "build", &build_lexical_column,
          "Index texts. columns: the chunks of each text column; weights: how often each column "
          "is joined; order: the texts' row of each row. progress is called on this thread with "
          "the number of rows done so far.",
          py::arg("name"), py::arg("columns"), py::arg("weights"), py::arg("order"),
          py::arg("analyzer").none(false), py::arg("threads"), py::arg("progress").none(true))
      .def_static("merge", &merge_lexical_columns,
                  "Join columns: row i is row source_row[i] of sources[source[i]].",
                  py::arg("sources"), py::arg("source"), py::arg("source_row"))
      .def_static("from_parts", &lexical_from_parts,
                  "Make a column from parts, after checking all. is_mapped: they lie in files that "
                  "may be cut; what leads to other data is copied. is_late: check() does both.",
                  py::arg("name"), py::arg("parts"), py::arg("threads"),
                  py::arg("is_mapped") = false, py::arg("is_late") = false)
      .def("check", &check_lexical_column,
           "Check the parts that it was made of, once; not on two threads at a time.",
           py::arg("threads"))
      .def("read_apart", &LexicalColumn::read_apart,
           "Tell the system that single postings will be read, far from each other; from then on "
           "those that are read in order are announced.")
      .def("parts", &lexical_parts, "Return the parts by name, as a file stores them.")
      .def("doc_length", &doc_length_of, "Return a row's number of positions; None without a text.",
           py::arg("row"))
      .def_property_readonly("n_terms", &LexicalColumn::n_terms, "The number of distinct terms.")
      .def_property_readonly("n_postings", &LexicalColumn::n_postings, "The number of postings.")
      .def("n_left_out", &LexicalColumn::n_left_out,
           "Return the number of postings that scans have left out so far. For tests.")
      .def_property_readonly("nbytes", &LexicalColumn::bytes, "Bytes of memory.");
}

MatrixChunk take_chunk(py::array const& chunk, DType dtype, std::uint32_t dim,
                       std::string const& name) {
  bool const fits = chunk.ndim() == 2 && chunk.shape(1) == static_cast<py::ssize_t>(dim) &&
                    static_cast<std::size_t>(chunk.itemsize()) == item_size(dtype) &&
                    (chunk.flags() & py::array::c_style) != 0;
  if (!fits) {
    throw Error(ErrorCode::kShape, name,
                "expected C-contiguous chunks of shape (n, " + std::to_string(dim) + ")");
  }
  return {Buffer<std::uint8_t>(static_cast<std::uint8_t const*>(chunk.data()),
                               static_cast<std::size_t>(chunk.nbytes()), keep(chunk)),
          static_cast<std::size_t>(chunk.shape(0))};
}

std::shared_ptr<DenseColumn> build_dense_column(std::string const& name, std::string const& dtype,
                                                std::uint32_t dim,
                                                std::vector<py::array> const& chunks,
                                                Array<std::uint8_t> const& valid,
                                                Array<std::uint32_t> const& order, int threads,
                                                std::optional<Array<std::uint32_t>> const& begins) {
  DType const type = take_dtype(dtype);
  FirstPassChoice const first_pass = read_settings().first_pass;
  std::vector<MatrixChunk> taken;
  for (py::array const& chunk : chunks) taken.push_back(take_chunk(chunk, type, dim, name));
  std::span<std::uint32_t const> const of_rows =
      begins ? span_of(*begins) : std::span<std::uint32_t const>{};
  NativeRun const run;
  return std::const_pointer_cast<DenseColumn>(DenseColumn::build(
      name, type, dim, taken, span_of(valid), span_of(order), threads, first_pass, of_rows));
}

std::shared_ptr<DenseColumn> merge_dense_columns(
    std::vector<std::shared_ptr<DenseColumn>> const& sources, Array<std::uint32_t> const& source,
    Array<Row> const& source_row, int threads) {
  FirstPassChoice const first_pass = read_settings().first_pass;
  auto const from = take_all(sources);
  NativeRun const run;
  return std::const_pointer_cast<DenseColumn>(
      DenseColumn::merge(from, span_of(source), span_of(source_row), threads, first_pass));
}

using PlaneArrays = std::tuple<py::array, py::array, py::array>;  // codes, scales, residuals
using HeadArrays = std::tuple<py::array, PlaneArrays>;            // directions, plane
using AllPlanes = std::tuple<PlaneArrays, std::optional<HeadArrays>>;

CodePlane take_plane(PlaneArrays const& arrays) {
  auto const& [codes, scales, residuals] = arrays;
  return {CodeBits::k8, take_buffer<std::uint8_t>(codes, "codes"),
          take_buffer<float>(scales, "scales"), take_buffer<float>(residuals, "residuals")};
}

// A plane of heads, whose size tells how many bits its codes have.
CodePlane take_heads(PlaneArrays const& arrays, std::size_t n_rows, std::uint32_t dim) {
  CodePlane plane = take_plane(arrays);
  std::size_t const n_blocks = cpu::plane_blocks(n_rows, dim, CodeBits::k4);
  bool const is_half = plane.scales.size() == n_blocks * cpu::kInt8BlockRows &&
                       plane.codes.size() == n_blocks * cpu::block_bytes(dim, CodeBits::k4);
  if (is_half) plane.bits = CodeBits::k4;
  return plane;
}

py::tuple give_plane(CodePlane const& plane) {
  return py::make_tuple(give(plane.codes), give(plane.scales), give(plane.residuals));
}

std::shared_ptr<DenseColumn> dense_from_parts(std::string name, std::string const& dtype,
                                              std::uint32_t dim, py::array const& rows,
                                              py::array const& inverse_norms,
                                              std::optional<AllPlanes> const& planes,
                                              std::optional<py::array> const& begins) {
  require(dim > 0, "a dimension");
  auto column = std::make_shared<DenseColumn>();
  column->name = std::move(name);
  column->dtype = take_dtype(dtype);
  column->dim = dim;
  column->rows = take_buffer<std::uint8_t>(rows, "rows");
  column->inverse_norms = take_buffer<float>(inverse_norms, "inverse_norms");
  if (column->rows.size() != column->inverse_norms.size() * column->row_bytes())
    throw Error(ErrorCode::kCorrupt, column->name, "expected as many rows as norms, got others");
  if (begins) {
    column->begins = take_buffer<std::uint32_t>(*begins, "begins");
    check_begins(column->begins.span(), column->n_vectors(), column->name);
  }
  if (!planes) return column;
  auto const& [int8_plane, head] = *planes;
  column->plane = take_plane(int8_plane);
  column->plane.check(column->n_vectors(), dim, column->name);
  if (!head) return column;
  auto const& [directions, plane] = *head;
  column->head.directions =
      std::make_shared<Directions>(take_buffer<float>(directions, "directions"), dim, column->name);
  std::uint32_t const head_dim = column->head.directions->head_dim();
  column->head.plane = take_heads(plane, column->n_rows(), head_dim);
  column->head.plane.check(column->n_rows(), head_dim, column->name);
  return column;
}

std::shared_ptr<DenseColumn> build_sparse_column(std::string const& name, bool is_half,
                                                 py::handle terms,
                                                 Array<std::int64_t> const& begins,
                                                 Array<std::uint32_t> const& numbers,
                                                 Array<std::uint8_t> const& weights,
                                                 Array<std::uint32_t> const& order) {
  Strings const taken = take_strings(take_arrow(terms, "terms"), "terms").values;
  NativeRun const run;
  return std::const_pointer_cast<DenseColumn>(DenseColumn::of_sparse(
      name, SparseColumn::build(name, is_half, taken, span_of(begins), span_of(numbers),
                                span_of(weights), span_of(order))));
}

// The parts of a column of sparse vectors by name, an array each, as a file stores them; None of
// another column.
py::object sparse_parts(DenseColumn const& column) {
  if (column.sparse == nullptr) return py::none();
  SparseColumn const& p = *column.sparse;
  py::dict out;
  out["term_offsets"] = give(p.terms.offsets);
  out["term_bytes"] = give(p.terms.bytes);
  out["term_runs"] = give(p.term_runs);
  out["run_pages"] = give(p.run_pages);
  out["run_begins"] = give(p.run_begins);
  out["run_greatest"] = give(p.run_greatest);
  out["rows"] = give(p.rows);
  out["weights"] = give(p.weights);
  out["sizes"] = give(p.sizes);
  return out;
}

// Makes a column from the parts of a file. What leads to other parts is copied, since the file may
// be cut.
std::shared_ptr<DenseColumn> dense_from_sparse_parts(std::string name, std::string const& dtype,
                                                     py::handle terms, py::dict const& parts) {
  auto const take = [&]<typename T>(char const* key, T) {
    if (!parts.contains(key)) throw Error(ErrorCode::kOption, key, "expected an array, got none");
    return take_buffer<T>(py::array(parts[key]), key);
  };
  auto const copy = [&]<typename T>(char const* key, T like) {
    Buffer<T> const own = take(key, like);
    return Buffer<T>(std::vector<T>(own.begin(), own.end()));
  };
  SparseColumn made;
  made.is_half = take_dtype(dtype) == DType::kFloat16;
  Strings const taken = take_strings(take_arrow(terms, "terms"), "terms").values;
  made.terms = {std::vector<std::int64_t>(taken.offsets.begin(), taken.offsets.end()), taken.bytes};
  made.term_runs = copy("term_runs", std::uint64_t{});
  made.run_pages = copy("run_pages", std::uint32_t{});
  made.run_begins = copy("run_begins", std::uint64_t{});
  made.run_greatest = copy("run_greatest", float{});
  made.rows = take("rows", std::uint16_t{});
  made.weights = take("weights", std::uint8_t{});
  made.sizes = take("sizes", std::uint32_t{});
  made.check_parts(name);
  return std::const_pointer_cast<DenseColumn>(DenseColumn::of_sparse(
      std::move(name), std::make_shared<SparseColumn const>(std::move(made))));
}

py::array rows_of(DenseColumn const& column) {
  return give(column.rows);
}

py::array row_of(DenseColumn const& column, Row row) {
  require(row < column.n_rows(), "a row of the column");
  RowRange const own = column.vectors_of(row);
  std::vector<std::uint8_t> out;
  for (Row v = own.begin; v < own.end; ++v)
    out.insert(out.end(), column.row(v), column.row(v) + column.row_bytes());
  return give(std::move(out));
}

py::object begins_of(DenseColumn const& column) {
  if (!column.has_many()) return py::none();
  return give(column.begins);
}

void read_late(DenseColumn& column, std::shared_ptr<BlockChecks> const& rows,
               std::shared_ptr<BlockChecks> const& plane,
               std::shared_ptr<BlockChecks> const& heads) {
  column.rows_checks = rows;
  if (rows != nullptr) read_apart(column.rows.data(), column.rows.bytes());
  column.plane.checks = plane;
  column.head.plane.checks = heads;
}

void check_dense(DenseColumn const& column) {
  WithoutGil const nogil;
  column.check();
}

py::array inverse_norms_of(DenseColumn const& column) {
  return give(column.inverse_norms);
}

py::object int8_plane_of(DenseColumn const& column) {
  if (column.plane.empty()) return py::none();
  return give_plane(column.plane);
}

py::object head_of(DenseColumn const& column) {
  if (column.head.empty()) return py::none();
  return py::make_tuple(give(column.head.directions->values()), give_plane(column.head.plane));
}

py::tuple plane_use_of(DenseColumn const& column) {
  return py::make_tuple(column.plane_use.n_windows.load(), column.plane_use.n_plain.load());
}

char const* dtype_of(DenseColumn const& column) {
  return dtype_name(column.dtype);
}

std::size_t bytes_of(DenseColumn const& column) {
  return column.bytes();
}

void bind_dense(py::module_& m) {
  py::class_<DenseColumn, std::shared_ptr<DenseColumn>>(
      m, "DenseColumn", "A dense arm of one segment: vectors as given, norms, and their planes.")
      .def_static(
          "build", &build_dense_column,
          "Take vectors. chunks: (n, dim) each; valid: a byte for each that says whether it "
          "is there; order: the vectors' row of each row. begins: where the vectors of rows of "
          "many "
          "begin, and one past the last.",
          py::arg("name"), py::arg("dtype"), py::arg("dim"), py::arg("chunks"), py::arg("valid"),
          py::arg("order"), py::arg("threads"), py::arg("begins") = py::none())
      .def_static("merge", &merge_dense_columns,
                  "Join columns: row i is row source_row[i] of sources[source[i]].",
                  py::arg("sources"), py::arg("source"), py::arg("source_row"),
                  py::arg("threads") = 1)
      .def_static("from_parts", &dense_from_parts, "Make a column from the parts of a file.",
                  py::arg("name"), py::arg("dtype"), py::arg("dim"), py::arg("rows"),
                  py::arg("norms"), py::arg("planes") = py::none(), py::arg("begins") = py::none())
      .def_static("build_sparse", &build_sparse_column,
                  "Take sparse vectors. Input row r has the terms numbers[i] with the float16 or "
                  "float32 weights i, for i from begins[r] to begins[r + 1]; terms: rising by "
                  "their bytes, none twice; order: the input row of each row.",
                  py::arg("name"), py::arg("is_half"), py::arg("terms"), py::arg("begins"),
                  py::arg("numbers"), py::arg("weights"), py::arg("order"))
      .def_static("from_sparse_parts", &dense_from_sparse_parts,
                  "Make a column of sparse vectors from the parts of a file.", py::arg("name"),
                  py::arg("dtype"), py::arg("terms"), py::arg("parts"))
      .def("sparse_parts", &sparse_parts,
           "Return the parts of a column of sparse vectors by name; None of another column.")
      .def("read_late", &read_late,
           "Compare blocks of the files of rows, plane and heads when they are first read; call it "
           "once, before others have the column. None: a file that was checked, or is not there. "
           "Norms and directions have to be checked.",
           py::arg("rows"), py::arg("plane"), py::arg("heads"))
      .def("check", &check_dense, "Compare all blocks with their checksums that nobody has read.")
      .def("row", &row_of, "Return a copy of a row's vector, or of all of them, as bytes.",
           py::arg("row"))
      .def_property_readonly(
          "begins", &begins_of,
          "Where the vectors of rows of many begin, and one past the last; None: "
          "each row has one.")
      .def_property_readonly("rows", &rows_of,
                             "The vectors as given, as bytes; call check() before reading them.")
      .def_property_readonly(
          "int8_plane", &int8_plane_of,
          "The int8 plane: codes + 128 in blocks of 16 rows x 4 elements, scales, residuals.")
      .def_property_readonly(
          "head", &head_of,
          "The heads of the vectors: directions one after the other, and the plane of the heads' "
          "int8 codes; None if heads would not pay.")
      .def_property_readonly(
          "plane_use", &plane_use_of,
          "(windows of rows that queries read through the plane, windows that they scored whole).")
      .def_property_readonly("inverse_norms", &inverse_norms_of,
                             "1 / |vector| of each row; 0 where there is no vector.")
      .def_property_readonly("dtype", &dtype_of, "The type of the vectors' elements.")
      .def_readonly("dim", &DenseColumn::dim, "The number of elements of a vector.")
      .def_property_readonly("nbytes", &bytes_of, "Bytes of memory, the planes included.");
}

}  // namespace

void bind_columns(py::module_& m) {
  bind_cells(m);
  bind_lexical(m);
  bind_dense(m);
}

}  // namespace hyrecall::bindings
