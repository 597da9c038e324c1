// Sparse vectors of a segment's rows (learnt sparse retrieval): terms with weights, kept as
// postings, so that a scan reads those of the query's terms alone. The postings of a term lie in
// runs of one page each, so that a row takes two bytes and each run tells its greatest weight.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/float_bits.hpp"
#include "core/types.hpp"
#include "engine/request/sparse_query.hpp"
#include "kernels/shared/sparse_job.hpp"

namespace hyrecall {

inline constexpr Row kPageRows = 1 << 16;

// A term of a query that the column has.
struct HeldTerm {
  std::uint32_t number;  // of the column's terms
  float weight;          // of the query
};

// A term that a query and a row share, and its weights.
struct SparsePair {
  std::string term;
  float query, row;
};

static_assert(kPageRows == kSparsePageRows);

struct SparseColumn {
  // The postings of a term in a page.
  struct Run {
    Row page;
    std::size_t begin;                    // number of the first posting
    std::span<std::uint16_t const> rows;  // of the page, rising
    float greatest;                       // weight
  };

  bool is_half = false;              // float16 weights, else float32
  Strings terms;                     // rising by their bytes, none twice
  Buffer<std::uint64_t> term_runs;   // [n_terms + 1] where the runs of each begin
  Buffer<std::uint32_t> run_pages;   // [n_runs] rising in a term
  Buffer<std::uint64_t> run_begins;  // [n_runs] of postings
  Buffer<float> run_greatest;        // [n_runs]
  Buffer<std::uint16_t> rows;        // [n_postings]
  Buffer<std::uint8_t> weights;      // [n_postings] of float16 or float32, above 0
  Buffer<std::uint32_t> sizes;       // [n_rows] terms of each; 0: the row has no vector

  std::size_t n_rows() const { return sizes.size(); }
  std::size_t item_bytes() const { return is_half ? 2 : 4; }
  std::size_t bytes() const;
  // Throws kCorrupt, for `name`, if the parts do not fit together.
  void check_parts(std::string const& name) const;

  static float weight_at(bool is_half, std::uint8_t const* at) {
    std::uint16_t bits;
    float value;
    if (is_half) {
      std::memcpy(&bits, at, sizeof bits);
      return float16_value(bits);
    }
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  float weight(std::size_t posting) const {
    return weight_at(is_half, weights.data() + posting * item_bytes());
  }
  Run run(std::size_t number) const {
    std::size_t const begin = run_begins[number];
    std::size_t const end = number + 1 < run_begins.size() ? run_begins[number + 1] : rows.size();
    return {run_pages[number], begin, rows.span().subspan(begin, end - begin),
            run_greatest[number]};
  }
  // The run of a term in a page; nothing where it has none.
  std::optional<Run> run_of(std::uint32_t term, Row page) const;
  // The row's weight of a term, 0 where it has none.
  float weight_of(std::uint32_t term, Row row) const;

  // The terms of a query that the column has, in its order.
  std::vector<HeldTerm> held(std::span<SparseTerm const> query) const;
  // The score of a row, by docs/scoring.md.
  float score(std::span<HeldTerm const> query, Row row) const;

  // Input row r has the terms numbers[i] with the weights i, for i from begins[r] to begins[r + 1],
  // in any order; row i of the column is input row order[i]. Throws, with the input row, if a
  // weight is not in [0, 2^40] or a term comes twice. weights: of float16 or float32.
  static std::shared_ptr<SparseColumn const> build(std::string const& name, bool is_half,
                                                   Strings const& terms,
                                                   std::span<std::int64_t const> begins,
                                                   std::span<std::uint32_t const> numbers,
                                                   std::span<std::uint8_t const> weights,
                                                   std::span<std::uint32_t const> order);
  // Copies rows of several columns into a new order.
  static std::shared_ptr<SparseColumn const> merge(std::span<SparseColumn const* const> sources,
                                                   std::span<std::uint32_t const> source,
                                                   std::span<Row const> source_row);
};

}  // namespace hyrecall
