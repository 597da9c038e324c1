#include "engine/request/dense_query.hpp"

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "core/formulas.hpp"
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

}  // namespace hyrecall
