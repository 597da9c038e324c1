// One tensor column of a segment: vectors as given, in their own precision, and one inverse norm
// per vector. A row has one vector, or any number of them (late interaction). Vectors are numbered
// as rows are; where a row has one they have the same number. Sparse vectors are kept otherwise:
// such a column has nothing but their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/block_checks.hpp"
#include "core/buffer.hpp"
#include "core/types.hpp"
#include "engine/dense/code_plane.hpp"
#include "engine/dense/head.hpp"
#include "engine/dense/sparse_column.hpp"
#include "engine/request/dense_query.hpp"
#include "kernels/settings.hpp"

namespace hyrecall {

enum class DType : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

inline std::size_t item_size(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

// A piece of the incoming matrix, row-major.
struct MatrixChunk {
  Buffer<std::uint8_t> bytes;  // [n_rows, dim] of the column's dtype
  std::size_t n_rows;
};

// Throws kCorrupt, for `name`, unless `begins` divides so many vectors among rows.
void check_begins(std::span<std::uint32_t const> begins, std::size_t n_vectors,
                  std::string const& name);

struct DenseColumn {
  std::string name;
  DType dtype = DType::kFloat32;
  std::uint32_t dim = 0;
  Buffer<std::uint8_t> rows;    // [n_vectors, dim] of dtype
  Buffer<float> inverse_norms;  // [n_vectors]; 0 = no vector (null, or a zero row)
  // [n_rows + 1] row r has the vectors from begins[r] to begins[r + 1]; empty: each row has one.
  Buffer<std::uint32_t> begins;
  CodePlane plane;  // empty: too few rows, too many dimensions, or saved without it
  Head head;        // empty: it would not pay, or was saved without it
  mutable PlaneUse plane_use;
  // Set if the file was opened without reading its vectors: each block is checked when it is first
  // read. Null: all blocks are checked. The segment checks the norms.
  std::shared_ptr<BlockChecks const> rows_checks;
  // Set: the rows have sparse vectors, and all of the above but the name is empty.
  std::shared_ptr<SparseColumn const> sparse;

  std::size_t n_vectors() const { return inverse_norms.size(); }
  std::size_t n_rows() const {
    if (sparse != nullptr) return sparse->n_rows();
    return has_many() ? begins.size() - 1 : n_vectors();
  }
  bool has_many() const { return !begins.empty(); }  // vectors in a row
  RowRange vectors_of(Row r) const {
    return has_many() ? RowRange{begins[r], begins[r + 1]} : RowRange{r, r + 1};
  }
  // Whether both have vectors of one form.
  bool is_like(DenseColumn const& other) const {
    return dim == other.dim && dtype == other.dtype && has_many() == other.has_many() &&
           (sparse == nullptr) == (other.sparse == nullptr);
  }
  std::size_t row_bytes() const { return dim * item_size(dtype); }
  std::uint8_t const* row(Row r) const {
    if (rows_checks != nullptr) rows_checks->ensure(address(r), row_bytes());
    return address(r);
  }
  // Prefetches the vector's first lines; the hardware does its later ones.
  void ask_for(Row r) const {
    for (std::size_t at = 0; at < (row_bytes() < 512 ? row_bytes() : 512); at += 64)
      __builtin_prefetch(address(r) + at);
  }
  // Checks all blocks that have not been read yet.
  void check() const;
  bool has(Row r) const {
    if (sparse != nullptr) return sparse->sizes[r] != 0;
    RowRange const own = vectors_of(r);
    for (Row v = own.begin; v < own.end; ++v)
      if (inverse_norms[v] != 0.0f) return true;
    return false;
  }
  std::size_t bytes() const {
    return rows.bytes() + inverse_norms.bytes() + begins.bytes() + plane.bytes() + head.bytes() +
           (sparse != nullptr ? sparse->bytes() : 0);
  }

  // Copies the rows into `order` and computes their norms. valid: a byte per input row, empty = all
  // have a vector. begins: [n_rows + 1] of input rows of many vectors, empty = each has one. Throws
  // with the input row if a norm is outside [2^-60, 2^60].
  static std::shared_ptr<DenseColumn const> build(
      std::string name, DType dtype, std::uint32_t dim, std::span<MatrixChunk const> chunks,
      std::span<std::uint8_t const> valid, std::span<std::uint32_t const> order, int threads,
      FirstPassChoice first_pass = FirstPassChoice::kAny,
      std::span<std::uint32_t const> begins = {});
  // A column of sparse vectors.
  static std::shared_ptr<DenseColumn const> of_sparse(std::string name,
                                                      std::shared_ptr<SparseColumn const> sparse);
  // Copies rows of several columns into a new order.
  static std::shared_ptr<DenseColumn const> merge(
      std::span<std::shared_ptr<DenseColumn const> const> sources,
      std::span<std::uint32_t const> source, std::span<Row const> source_row, int threads = 1,
      FirstPassChoice first_pass = FirstPassChoice::kAny);

  // The vector's dim values as float32; exact.
  void widen(Row r, float* out) const;
  // The row as a query: float32, padded with +0 to a multiple of 32.
  std::vector<float> widen(Row r) const;

  // scores[i] = cosine of the query with vector begin + i; a missing one gets a cosine of 0 (check
  // has()).
  void score(float const* padded_query, float inverse_query_norm, Row begin, Row end,
             float* scores) const;
  // The same for these rows.
  void score(float const* padded_query, float inverse_query_norm, std::span<Row const> some,
             float* scores) const;
  // scores[i] = cosine of pair i, whose vector is there.
  struct Pair {
    DenseQuery const* query;
    Row vector;
  };
  void score(std::span<Pair const> pairs, float* scores) const;

 private:
  float cosine_of(float dot, Row vector, float inverse_query_norm) const;
  std::uint8_t const* address(Row r) const { return rows.data() + r * row_bytes(); }
  // Makes the int8 plane, and, where rows have one vector, heads if they pay; a vector is read once
  // for both.
  void make_planes(int threads, FirstPassChoice choice);
  // Sets the directions; returns nothing if heads do not pay.
  std::optional<CodePlaneBuilder> choose_heads(int threads, FirstPassChoice choice);
  // Takes the directions of `from` and copies its heads; computes the heads of other columns' rows.
  void merge_heads(DenseColumn const& from, std::span<std::shared_ptr<DenseColumn const> const> all,
                   std::span<std::uint32_t const> source, std::span<Row const> source_row);
  // some: rising.
  void set_heads(std::span<Row const> some, CodePlaneBuilder& builder) const;
};

}  // namespace hyrecall
