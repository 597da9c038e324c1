// Length norms and tables of impacts of a query, if it has enough postings to pay for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_cursor.hpp"

namespace hyrecall {

class ImpactTables {
 public:
  // Makes the norms and tables of a query on a column, and sets each leaf's table if it has one.
  // Keeps the norms of the call before if they are the same.
  void make(Bm25Query const& query, LexicalColumn const& column, std::span<LeafCursor> leaves);
  // The norm of a length that is stored in a posting.
  float norm(Bm25Query const& query, std::uint32_t length) const {
    std::size_t const at = length - norms_from_;  // large if a lost page has length 0
    return has_norms_ && at < norms_.size() ? norms_[at] : query.length_norm(length);
  }

 private:
  bool has_norms_ = false;
  std::optional<Bm25Query::NormParams> norms_of_;  // inputs of norms_
  std::uint32_t norms_from_ = 0;
  std::vector<float> norms_;   // of lengths from norms_from_ on
  std::vector<float> tables_;  // impacts by posting code, leaf after leaf
};

}  // namespace hyrecall
