#include "engine/request/dense_query.hpp"

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/parallel.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {

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

DenseQuery prepare_query(float const* values, std::uint32_t dim, std::string const& argument,
                         std::size_t query) {
  DenseQuery out;
  out.padded.assign((dim + kLanes - 1) / kLanes * kLanes, 0.0f);
  std::copy(values, values + dim, out.padded.begin());
  double const norm = row_norm(dim, [&](std::size_t i) { return static_cast<double>(values[i]); });
  out.inverse_norm = checked_inverse_norm(norm, argument, "query " + std::to_string(query));
  return out;
}

std::vector<DenseQuery> prepare_queries(float const* values, std::size_t n_queries,
                                        std::uint32_t dim, std::span<std::uint8_t const> present,
                                        std::string const& argument, int threads) {
  constexpr std::size_t kSerialValues = 1 << 14;  // fewer are not worth a second thread
  require(present.empty() || present.size() == n_queries, "a byte a query");
  std::vector<DenseQuery> out(n_queries);
  parallel_for(n_queries, n_queries * dim < kSerialValues ? 1 : threads, [&](int, std::size_t q) {
    if (present.empty() || present[q] != 0)
      out[q] = prepare_query(values + q * dim, dim, argument, q);
  });
  return out;
}

}  // namespace hyrecall
