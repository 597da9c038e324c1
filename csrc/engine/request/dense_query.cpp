#include "engine/request/dense_query.hpp"

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/parallel.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {

DenseQueries::DenseQueries(std::size_t n_queries, std::uint32_t dim)
    : dim_(dim),
      stride_((dim + kLanes - 1) / kLanes * kLanes),
      values_(n_queries * stride_),
      inverse_norms_(n_queries, 0.0f),
      has_row_(n_queries, 0) {}

DenseQuery DenseQueries::operator[](std::size_t query) const {
  if (has_row_.at(query) == 0) return {};
  return {{values_.data() + query * stride_, stride_}, inverse_norms_[query]};
}

float* DenseQueries::room(std::size_t query) {
  has_row_.at(query) = 1;
  float* const row = values_.data() + query * stride_;
  std::fill(row + dim_, row + stride_, 0.0f);
  return row;
}

float checked_inverse_norm(double norm, std::string const& argument, std::string const& place) {
  if (!is_norm(norm)) {
    char got[32];  // std::to_string would show a small norm as 0.000000
    std::snprintf(got, sizeof got, "%g", norm);
    throw Error(ErrorCode::kOption, argument,
                std::string("expected a norm in [2^-60, 2^60] or a zero vector, got ") + got +
                    " in " + place);
  }
  return inverse_norm(norm);
}

std::shared_ptr<DenseQueries const> prepare_queries(float const* values, std::size_t n_queries,
                                                    std::uint32_t dim,
                                                    std::span<std::uint8_t const> present,
                                                    std::string const& argument, int threads) {
  require(present.empty() || present.size() == n_queries, "a byte a query");
  auto out = std::make_shared<DenseQueries>(n_queries, dim);
  int const used = n_queries * dim < kSerialValues ? 1 : threads;
  parallel_runs(n_queries, kShortRun, used, [&](int, std::size_t q) {
    if (!present.empty() && present[q] == 0) return;
    float* const row = out->room(q);
    std::copy_n(values + q * dim, dim, row);
    double const norm = row_norm(dim, [row](std::size_t i) { return static_cast<double>(row[i]); });
    if (!is_norm(norm)) checked_inverse_norm(norm, argument, "query " + std::to_string(q));
    out->set_inverse_norm(q, inverse_norm(norm));
  });
  return out;
}

}  // namespace hyrecall
