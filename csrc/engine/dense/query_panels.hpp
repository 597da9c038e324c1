// The queries of the first pass in panels, the layout that the kernels read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/dense/collector.hpp"
#include "kernels/cpu/first_pass.hpp"

namespace hyrecall {

class QueryPanels {
 public:
  // Copies the queries' codes and constants, so the queries need not outlive the panels.
  QueryPanels(cpu::FirstPassKernels const& kernels, std::span<QuantizedQuery const* const> queries,
              std::uint32_t dim);

  std::size_t size() const { return packed_.size(); }
  std::size_t width() const { return width_; }
  // A row passes the query if its reach is at least this. At first infinity, so no row passes.
  float& cut(std::size_t query) { return cuts_[query]; }
  cpu::FirstPassQueries operator[](std::size_t panel) const;

 private:
  std::size_t width_;
  std::vector<std::unique_ptr<std::uint8_t[]>> packed_;
  std::vector<std::int32_t> offsets_;  // of whole panels
  std::vector<float> scales_;
  std::vector<float> per_residual_;
  std::vector<float> cuts_;
};

}  // namespace hyrecall
