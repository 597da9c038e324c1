#include "engine/dense/column.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/float_bits.hpp"
#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/pages.hpp"
#include "core/parallel.hpp"
#include "core/zeroed.hpp"
#include "engine/dense/head_choice.hpp"
#include "engine/request/dense_query.hpp"
#include "engine/segment/merge_order.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {
namespace {

double norm_of(DType dtype, std::uint8_t const* row, std::size_t dim) {
  auto const* floats = reinterpret_cast<float const*>(row);
  auto const* halves = reinterpret_cast<std::uint16_t const*>(row);
  switch (dtype) {
    case DType::kFloat32:
      return row_norm(dim, [&](std::size_t i) { return static_cast<double>(floats[i]); });
    case DType::kFloat16:
      return row_norm(dim,
                      [&](std::size_t i) { return static_cast<double>(float16_value(halves[i])); });
    case DType::kBFloat16:
      return row_norm(
          dim, [&](std::size_t i) { return static_cast<double>(bfloat16_value(halves[i])); });
  }
  return 0.0;
}

constexpr std::size_t kRowsAtOnce = 4096;   // rows a thread takes at a time
constexpr std::size_t kHeadsAtOnce = 48;    // rows that stay in a cache for all directions
constexpr std::size_t kReadAheadRows = 64;  // of a mapped file, whose pages fault one by one

// Calls of(rows) for a few of n_rows rows at a time; each thread's calls are in ascending order.
template <typename Of>
void by_few(std::size_t n_rows, int threads, Of const& of) {
  std::size_t const n_blocks = (n_rows + kRowsAtOnce - 1) / kRowsAtOnce;
  parallel_for(n_blocks, threads, [&](int, std::size_t block) {
    std::size_t const end = std::min(n_rows, (block + 1) * kRowsAtOnce);
    std::vector<Row> some;
    for (std::size_t i = block * kRowsAtOnce; i < end; ++i) {
      some.push_back(static_cast<Row>(i));
      if (some.size() < kHeadsAtOnce && i + 1 < end) continue;
      of(some);
      some.clear();
    }
  });
}

constexpr std::size_t padded_dim(std::size_t dim) {
  return (dim + kLanes - 1) / kLanes * kLanes;
}

// Quantises a row; returns its scale and residual.
Int8Row quantize_any(DType dtype, std::uint8_t const* row, std::size_t dim, std::int8_t* codes) {
  double const norm = norm_of(dtype, row, dim);
  auto const* floats = reinterpret_cast<float const*>(row);
  auto const* bits = reinterpret_cast<std::uint16_t const*>(row);
  switch (dtype) {
    case DType::kFloat32:
      return quantize_row(dim, [&](std::size_t i) { return floats[i]; }, norm, codes);
    case DType::kFloat16:
      return quantize_row(dim, [&](std::size_t i) { return float16_value(bits[i]); }, norm, codes);
    case DType::kBFloat16:
      return quantize_row(dim, [&](std::size_t i) { return bfloat16_value(bits[i]); }, norm, codes);
  }
  return {0.0f, 0.0f};
}

// With fewer rows, a scan without a plane takes microseconds.
constexpr std::size_t kLeastPlaneRows = 512;

bool deserves_plane(std::size_t n_rows, std::size_t dim, FirstPassChoice first_pass) {
  return n_rows > 0 && (n_rows >= kLeastPlaneRows || forces_plane(first_pass)) &&
         dim <= max_first_pass_dim(FirstPassPlane::kInt8);
}

std::uint32_t count_of(std::size_t n_vectors) {
  require(n_vectors < kNone32, "fewer than 2^32 - 1 vectors");
  return static_cast<std::uint32_t>(n_vectors);
}

// Words for an input vector.
std::string place_of(std::span<std::uint32_t const> begins, std::size_t vector) {
  if (begins.empty()) return "row " + std::to_string(vector);
  auto const after = std::upper_bound(begins.begin(), begins.end(), vector) - begins.begin();
  auto const row = static_cast<std::size_t>(after) - 1;
  return "vector " + std::to_string(vector - begins[row]) + " of row " + std::to_string(row);
}

}  // namespace

void check_begins(std::span<std::uint32_t const> begins, std::size_t n_vectors,
                  std::string const& name) {
  bool const fits = !begins.empty() && begins.front() == 0 && begins.back() == n_vectors &&
                    std::is_sorted(begins.begin(), begins.end());
  if (!fits)
    throw Error(ErrorCode::kCorrupt, name, "expected where the vectors of rows begin, got others");
}

std::shared_ptr<DenseColumn const> DenseColumn::build(
    std::string name, DType dtype, std::uint32_t dim, std::span<MatrixChunk const> chunks,
    std::span<std::uint8_t const> valid, std::span<std::uint32_t const> order, int threads,
    FirstPassChoice first_pass, std::span<std::uint32_t const> begins) {
  auto column = std::make_shared<DenseColumn>();
  column->name = std::move(name);
  column->dtype = dtype;
  column->dim = dim;
  std::size_t const row_bytes = column->row_bytes();
  std::vector<std::size_t> starts{0};
  for (MatrixChunk const& chunk : chunks) starts.push_back(starts.back() + chunk.n_rows);
  require(dim > 0, "at least one dimension");
  std::vector<std::uint32_t> of_vectors;
  if (!begins.empty()) {
    require(order.size() + 1 == begins.size(), "as many rows");
    check_begins(begins, starts.back(), column->name);
    std::vector<std::uint32_t> to_begins{0};
    for (std::uint32_t from : order) {
      require(from < order.size(), "an order of the rows");
      for (Row v = begins[from]; v < begins[from + 1]; ++v) of_vectors.push_back(v);
      to_begins.push_back(count_of(of_vectors.size()));
    }
    column->begins = std::move(to_begins);
    order = of_vectors;
  }
  require(starts.back() == order.size(), "as many vectors as rows");
  require(valid.empty() || valid.size() == order.size(), "a byte a row");
  for (std::uint32_t from : order) require(from < order.size(), "an order of the rows");

  Zeroed<std::uint8_t> rows(order.size() * row_bytes);
  std::vector<float> inverse_norms(order.size(), 0.0f);
  std::size_t const n_blocks = (order.size() + kRowsAtOnce - 1) / kRowsAtOnce;
  parallel_for(n_blocks, threads, [&](int, std::size_t block) {
    std::size_t const end = std::min(order.size(), (block + 1) * kRowsAtOnce);
    for (std::size_t to = block * kRowsAtOnce; to < end; ++to) {
      std::size_t const from = order[to];
      if (!valid.empty() && valid[from] == 0) continue;
      auto const chunk =
          static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), from) -
                                   starts.begin()) -
          1;
      std::uint8_t* const at = rows.data() + to * row_bytes;
      std::memcpy(at, chunks[chunk].bytes.data() + (from - starts[chunk]) * row_bytes, row_bytes);
      inverse_norms[to] =
          checked_inverse_norm(norm_of(dtype, at, dim), column->name, place_of(begins, from));
    }
  });
  column->rows = std::move(rows).finish();
  column->inverse_norms = std::move(inverse_norms);
  column->make_planes(threads, first_pass);
  return column;
}

std::shared_ptr<DenseColumn const> DenseColumn::of_sparse(
    std::string name, std::shared_ptr<SparseColumn const> sparse) {
  auto column = std::make_shared<DenseColumn>();
  column->name = std::move(name);
  column->dtype = sparse->is_half ? DType::kFloat16 : DType::kFloat32;
  column->sparse = std::move(sparse);
  return column;
}

void DenseColumn::make_planes(int threads, FirstPassChoice choice) {
  if (!deserves_plane(n_vectors(), dim, choice)) return;
  CodePlaneBuilder builder(n_vectors(), dim);
  std::optional<CodePlaneBuilder> heads = choose_heads(threads, choice);
  by_few(n_vectors(), threads, [&](std::span<Row const> some) {
    std::vector<std::int8_t> codes(dim);
    for (Row const r : some) {
      Int8Row const quantized = quantize_any(dtype, row(r), dim, codes.data());
      builder.set(r, quantized, codes.data());
    }
    if (heads) set_heads(some, *heads);
  });
  plane = std::move(builder).finish();
  if (heads) head.plane = std::move(*heads).finish();
}

std::optional<CodePlaneBuilder> DenseColumn::choose_heads(int threads, FirstPassChoice choice) {
  if (has_many()) return std::nullopt;  // their scan reads only the plane
  HeadChoice const chosen = choose_head(*this, threads, choice);
  head.directions = chosen.directions;
  if (head.empty()) return std::nullopt;
  head.plane.bits = chosen.bits;
  return CodePlaneBuilder(n_rows(), head.directions->head_dim(), chosen.bits);
}

void DenseColumn::set_heads(std::span<Row const> some, CodePlaneBuilder& builder) const {
  Directions const& directions = *head.directions;
  std::size_t const head_dim = directions.head_dim();
  std::vector<std::int8_t> codes(head_dim);
  std::vector<float> heads(some.size() * head_dim);
  if (head.plane.bits == CodeBits::k8) {  // projects as for queries
    for (Row const r : some) {
      double const norm = norm_of(dtype, row(r), dim);
      directions.project(widen(r).data(), norm, heads.data());
      builder.set(r, directions.quantize(heads.data(), norm, CodeBits::k8, codes.data()),
                  codes.data());
    }
    return;
  }
  std::vector<float> inverses;
  for (Row const r : some) inverses.push_back(inverse_norms[r]);
  std::size_t const n_between = some.back() - some.front() + std::size_t{1};
  if (dtype == DType::kFloat32 && n_between == some.size()) {  // rows rise: they lie together
    auto const* const vectors = reinterpret_cast<float const*>(row(some.front()));
    directions.project_rows(vectors, inverses, heads.data());
  } else {
    std::vector<float> vectors(some.size() * dim);
    for (std::size_t i = 0; i < some.size(); ++i) widen(some[i], vectors.data() + i * dim);
    directions.project_rows(vectors.data(), inverses, heads.data());
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    double const norm = inverses[i] == 0.0f ? 0.0 : 1.0;
    Int8Row const quantized =
        directions.quantize(heads.data() + i * head_dim, norm, CodeBits::k4, codes.data());
    builder.set(some[i], quantized, codes.data());
  }
}

void DenseColumn::merge_heads(DenseColumn const& from,
                              std::span<std::shared_ptr<DenseColumn const> const> all,
                              std::span<std::uint32_t const> source,
                              std::span<Row const> source_row) {
  head.directions = from.head.directions;
  head.plane.bits = from.head.plane.bits;
  CodePlaneBuilder builder(n_rows(), head.directions->head_dim(), head.plane.bits);
  std::vector<Row> some;
  for (std::size_t i = 0; i < n_rows(); ++i) {
    if (i % kRowsAtOnce == 0) poll_interrupt();
    auto const to = static_cast<Row>(i);
    if (all[source[i]].get() == &from) {
      builder.copy(to, from.head.plane, source_row[i]);
    } else {
      some.push_back(to);
    }
    if (some.size() == kHeadsAtOnce || (i + 1 == n_rows() && !some.empty())) {
      set_heads(some, builder);
      some.clear();
    }
  }
  head.plane = std::move(builder).finish();
}

std::shared_ptr<DenseColumn const> DenseColumn::merge(
    std::span<std::shared_ptr<DenseColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row, int threads,
    FirstPassChoice first_pass) {
  check_sources<DenseColumn>(sources, source, source_row);
  DenseColumn const& like = *sources.front();
  for (auto const& one : sources) require(one->is_like(like), "columns of one type");
  if (like.sparse != nullptr) {
    std::vector<SparseColumn const*> all;
    for (auto const& one : sources) all.push_back(one->sparse.get());
    return of_sparse(like.name, SparseColumn::merge(all, source, source_row));
  }
  auto column = std::make_shared<DenseColumn>();
  std::vector<std::uint32_t> of_vectors;
  std::vector<Row> vectors;
  if (like.has_many()) {
    std::vector<std::uint32_t> begins{0};
    for (std::size_t i = 0; i < source.size(); ++i) {
      RowRange const own = sources[source[i]]->vectors_of(source_row[i]);
      for (Row v = own.begin; v < own.end; ++v) vectors.push_back(v);
      of_vectors.resize(vectors.size(), source[i]);
      begins.push_back(count_of(vectors.size()));
    }
    column->begins = std::move(begins);
    source = of_vectors;
    source_row = vectors;
  }
  column->name = sources.front()->name;
  column->dtype = sources.front()->dtype;
  column->dim = sources.front()->dim;
  std::size_t const row_bytes = column->row_bytes();
  Zeroed<std::uint8_t> rows(source.size() * row_bytes);
  std::vector<float> inverse_norms(source.size());
  for (std::size_t to = 0; to < source.size(); ++to) {
    if (to % kRowsAtOnce == 0) poll_interrupt();
    DenseColumn const& from = *sources[source[to]];
    std::memcpy(rows.data() + to * row_bytes, from.row(source_row[to]), row_bytes);
    inverse_norms[to] = from.inverse_norms[source_row[to]];
  }
  column->rows = std::move(rows).finish();
  column->inverse_norms = std::move(inverse_norms);
  if (!deserves_plane(source.size(), column->dim, first_pass)) return column;
  CodePlaneBuilder builder(source.size(), column->dim);
  std::vector<std::int8_t> codes(column->dim);
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (i % kRowsAtOnce == 0) poll_interrupt();
    DenseColumn const& from = *sources[source[i]];
    auto const to = static_cast<Row>(i);
    if (!from.plane.empty()) {
      builder.copy(to, from.plane, source_row[i]);
    } else {
      Int8Row const quantized =
          quantize_any(from.dtype, from.row(source_row[i]), from.dim, codes.data());
      builder.set(to, quantized, codes.data());
    }
  }
  column->plane = std::move(builder).finish();
  // Keep the directions that most rows have; if there are none, learn directions from the new rows.
  std::vector<std::size_t> counts(sources.size());
  for (std::uint32_t const from : source) ++counts[from];
  for (std::size_t s = 0; s < sources.size(); ++s) {
    if (2 * counts[s] < source.size() || sources[s]->head.empty()) continue;
    column->merge_heads(*sources[s], sources, source, source_row);
    return column;
  }
  if (std::optional<CodePlaneBuilder> heads = column->choose_heads(threads, first_pass)) {
    by_few(column->n_vectors(), threads,
           [&](std::span<Row const> some) { column->set_heads(some, *heads); });
    column->head.plane = std::move(*heads).finish();
  }
  return column;
}

void DenseColumn::check() const {
  if (rows_checks != nullptr) {
    read_in_order(rows.data(), rows.bytes());
    read_in_order(inverse_norms.data(), inverse_norms.bytes());
    rows_checks->ensure_all();
  }
  for (CodePlane const* one : {&plane, &head.plane})
    if (one->checks != nullptr) one->checks->ensure_all();
}

void DenseColumn::widen(Row r, float* out) const {
  std::uint8_t const* const at = row(r);
  auto const* const bits = reinterpret_cast<std::uint16_t const*>(at);
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(out, at, row_bytes());
      break;
    case DType::kFloat16:
      for (std::size_t i = 0; i < dim; ++i) out[i] = float16_value(bits[i]);
      break;
    case DType::kBFloat16:
      for (std::size_t i = 0; i < dim; ++i) out[i] = bfloat16_value(bits[i]);
      break;
  }
}

std::vector<float> DenseColumn::widen(Row r) const {
  std::vector<float> out(padded_dim(dim), 0.0f);
  widen(r, out.data());
  return out;
}

void DenseColumn::score(float const* padded_query, float inverse_query_norm, Row begin, Row end,
                        float* scores) const {
  cpu::DotKernels const& dot = cpu::kernels().dot;
  std::size_t const n = end - begin;
  auto const* const at = address(begin);
  if (rows_checks != nullptr) {
    if (n >= kReadAheadRows) read_ahead_if_absent(at, n * row_bytes());
    rows_checks->ensure(at, n * row_bytes());
  }
  switch (dtype) {
    case DType::kFloat32:
      dot.float32(padded_query, reinterpret_cast<float const*>(at), n, dim, scores);
      break;
    case DType::kFloat16:
      dot.float16(padded_query, reinterpret_cast<std::uint16_t const*>(at), n, dim, scores);
      break;
    case DType::kBFloat16:
      dot.bfloat16(padded_query, reinterpret_cast<std::uint16_t const*>(at), n, dim, scores);
      break;
  }
  for (std::size_t i = 0; i < n; ++i)
    scores[i] = cosine_of(scores[i], begin + static_cast<Row>(i), inverse_query_norm);
}

float DenseColumn::cosine_of(float dot, Row vector, float inverse_query_norm) const {
  float const found = cosine(dot, inverse_norms[vector], inverse_query_norm);
  // Only vectors of a forged file give NaN, which would break the sort order of scores.
  return std::isnan(found) ? -1.0f : found;
}

void DenseColumn::score(std::span<Pair const> pairs, float* scores) const {
  constexpr std::size_t kAtOnce = 64;
  cpu::DotKernels const& dot = cpu::kernels().dot;
  cpu::DotPairs const of = dtype == DType::kFloat32   ? dot.float32_pairs
                           : dtype == DType::kFloat16 ? dot.float16_pairs
                                                      : dot.bfloat16_pairs;
  for (std::size_t begin = 0; begin < pairs.size(); begin += kAtOnce) {
    cpu::DotPair some[kAtOnce];
    std::size_t const n = std::min(kAtOnce, pairs.size() - begin);
    for (std::size_t i = 0; i < n; ++i)
      some[i] = {pairs[begin + i].query->padded.data(), row(pairs[begin + i].vector)};
    of(some, n, dim, scores + begin);
  }
  for (std::size_t i = 0; i < pairs.size(); ++i)
    scores[i] = cosine_of(scores[i], pairs[i].vector, pairs[i].query->inverse_norm);
}

void DenseColumn::score(float const* padded_query, float inverse_query_norm,
                        std::span<Row const> some, float* scores) const {
  constexpr std::size_t kAhead = 4;  // rows
  for (std::size_t i = 0; i < some.size();) {
    std::size_t end = i + 1;  // consecutive rows are scored together
    while (end < some.size() && end - i < kAhead && some[end] == some[end - 1] + 1) ++end;
    for (std::size_t next = i + kAhead; next < std::min(some.size(), end + kAhead); ++next)
      ask_for(some[next]);
    score(padded_query, inverse_query_norm, some[i], some[i] + static_cast<Row>(end - i),
          scores + i);
    i = end;
  }
}

}  // namespace hyrecall
