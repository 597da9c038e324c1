#include "engine/request/sparse_query.hpp"

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"

namespace hyrecall {

bool counts_as_weight(float weight, std::string const& argument, std::string_view term,
                      std::string const& place) {
  if (!(weight >= 0.0f && weight <= kMostSparseWeight)) {
    char got[32];
    std::snprintf(got, sizeof got, "%g", static_cast<double>(weight));
    throw Error(ErrorCode::kOption, argument,
                std::string("expected weights in [0, 2^40], got ") + got + " of '" +
                    std::string(term) + "' in " + place);
  }
  return weight >= kLeastSparseWeight;
}

SparseQueries::SparseQueries(Strings terms, std::span<std::int64_t const> begins,
                             std::span<std::uint32_t const> numbers, std::span<float const> weights,
                             std::string const& argument)
    : terms_(std::move(terms)) {
  bool const fits = !begins.empty() && begins.front() == 0 &&
                    static_cast<std::size_t>(begins.back()) == numbers.size() &&
                    std::is_sorted(begins.begin(), begins.end()) &&
                    numbers.size() == weights.size();
  require(fits, "where the terms of each query begin");
  for (std::size_t q = 0; q + 1 < begins.size(); ++q) {
    std::size_t const first = found_.size();
    for (auto i = static_cast<std::size_t>(begins[q]); i < static_cast<std::size_t>(begins[q + 1]);
         ++i) {
      require(numbers[i] < terms_.size(), "known terms");
      std::string_view const term = terms_[numbers[i]];
      if (counts_as_weight(weights[i], argument, term, "query " + std::to_string(q)))
        found_.push_back({term, weights[i]});
    }
    auto const own = found_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(own, found_.end(),
              [](SparseTerm const& a, SparseTerm const& b) { return a.term < b.term; });
    auto const twice = std::adjacent_find(
        own, found_.end(), [](auto const& a, auto const& b) { return a.term == b.term; });
    if (twice != found_.end())
      throw Error(ErrorCode::kOption, argument,
                  "expected each term once, got '" + std::string(twice->term) +
                      "' twice in query " + std::to_string(q));
    begins_.push_back(found_.size());
  }
}

}  // namespace hyrecall
