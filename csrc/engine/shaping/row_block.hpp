// Vectors of one column, gathered back to back so that a kernel takes several at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/dense/column.hpp"

namespace hyrecall {

class RowBlock {
 public:
  // expected: how many vectors will come.
  explicit RowBlock(std::size_t expected) : expected_(expected) {}

  std::size_t size() const { return inverse_norms_.size(); }
  // The row must have a vector.
  void add(DenseColumn const& column, Row row);
  // out[i] = canonical cosine of the block's vector begin + i, as query, and this row.
  void cosines(DenseColumn const& column, Row row, std::size_t begin, std::span<float> out);

 private:
  std::size_t expected_;
  // A cache line: rows that straddle two cost a kernel twice the loads.
  struct alignas(64) Line {
    float values[16];
  };

  std::vector<Line> lines_;  // [size, padded dim] float32, padded with +0
  std::vector<float> inverse_norms_;
  std::vector<float> row_;  // of the row at hand, where it does not lie as the kernel wants it
};

}  // namespace hyrecall
