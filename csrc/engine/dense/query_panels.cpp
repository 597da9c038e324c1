#include "engine/dense/query_panels.hpp"

#include <algorithm>
#include <limits>

namespace hyrecall {
namespace {

std::uint8_t* aligned(std::uint8_t* at) {
  return at + (64 - reinterpret_cast<std::uintptr_t>(at) % 64) % 64;
}

}  // namespace

QueryPanels::QueryPanels(cpu::FirstPassKernels const& kernels,
                         std::span<QuantizedQuery const* const> queries, std::uint32_t dim)
    : width_(static_cast<std::size_t>(kernels.width)),
      cuts_(queries.size(), std::numeric_limits<float>::infinity()) {
  // A kernel may read offsets of a whole panel, also of the last one.
  offsets_.resize(queries.size() + static_cast<std::size_t>(kernels.width));
  for (std::size_t q = 0; q < queries.size(); ++q)
    offsets_[q] = static_cast<std::int32_t>(static_cast<std::uint32_t>(kernels.offset) *
                                            static_cast<std::uint32_t>(queries[q]->sum));
  for (QuantizedQuery const* one : queries) {
    scales_.push_back(one->scale);
    per_residual_.push_back(one->bound.per_residual);
  }
  std::vector<std::int8_t const*> codes;
  for (std::size_t begin = 0; begin < queries.size(); begin += width_) {
    codes.clear();
    for (QuantizedQuery const* one :
         queries.subspan(begin, std::min(width_, queries.size() - begin)))
      codes.push_back(one->codes.data());
    int const n = static_cast<int>(codes.size());
    packed_.push_back(std::make_unique<std::uint8_t[]>(kernels.panel_bytes(n, dim) + 64));
    kernels.pack(codes.data(), n, dim, aligned(packed_.back().get()));
  }
}

cpu::FirstPassQueries QueryPanels::operator[](std::size_t panel) const {
  std::size_t const begin = panel * width_;
  return {aligned(packed_[panel].get()), offsets_.data() + begin,
          scales_.data() + begin,        per_residual_.data() + begin,
          cuts_.data() + begin,          static_cast<int>(std::min(width_, cuts_.size() - begin))};
}

}  // namespace hyrecall
