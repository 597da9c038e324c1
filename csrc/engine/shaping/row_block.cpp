#include "engine/shaping/row_block.hpp"

#include <iterator>

#include "core/formulas.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {
namespace {

std::size_t padded(std::size_t dim) {
  return (dim + kLanes - 1) / kLanes * kLanes;
}

}  // namespace

void RowBlock::add(DenseColumn const& column, Row row) {
  std::size_t const n_lines = padded(column.dim) / std::size(Line{}.values);
  if (lines_.empty()) lines_.reserve(expected_ * n_lines);
  lines_.resize(lines_.size() + n_lines);  // of zeros
  column.widen(row, reinterpret_cast<float*>(lines_.data() + size() * n_lines));
  inverse_norms_.push_back(column.inverse_norms[row]);
}

void RowBlock::cosines(DenseColumn const& column, Row row, std::size_t begin,
                       std::span<float> out) {
  if (out.empty()) return;
  std::size_t const dim = padded(column.dim);
  auto const* values = reinterpret_cast<float const*>(column.row(row));
  if (column.dtype != DType::kFloat32 || column.dim != dim) {
    row_.assign(dim, 0.0f);
    column.widen(row, row_.data());
    values = row_.data();
  }
  // A product does not know which factor came first, so the row may take the query's place here;
  // the norms, each with a rounding of its own, keep theirs.
  float const* const queries = reinterpret_cast<float const*>(lines_.data()) + begin * dim;
  cpu::kernels().dot.float32(values, queries, out.size(), dim, out.data());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = cosine(out[i], column.inverse_norms[row], inverse_norms_[begin + i]);
}

}  // namespace hyrecall
