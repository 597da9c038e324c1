// Text -> terms with positions. One analyzer serves documents and queries of an index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hyrecall::text {

enum class Role { kDocument, kQuery };  // scripts without spaces: documents hold uni- and bigrams, queries bigrams

// The analysed form of a batch of texts. Terms are numbered by first use in the batch.
struct TokenBatch {
  std::vector<std::string> terms;         // [n_terms] distinct terms, UTF-8
  std::vector<std::uint64_t> offsets{0};  // [n_texts + 1] into term_ids and positions
  std::vector<std::uint32_t> term_ids;    // [n_tokens] index into terms
  std::vector<std::uint32_t> positions;   // [n_tokens] from 0, never falling within a text
  std::vector<std::uint32_t> lengths;     // [n_texts] number of positions used (a compound and its first part share one)
};

// One distinct raw token -> the terms that stand for it (none drops it; its position stays used, or not: see Analyzer).
using TokenFunction = std::function<std::vector<std::vector<std::string>>(std::span<std::string const>)>;
// Whole texts -> their terms, one position each.
using TextFunction = std::function<std::vector<std::vector<std::string>>(std::span<std::string_view const>)>;

class Analyzer {
 public:
  virtual ~Analyzer() = default;
  // Appends nothing but whole texts: on an exception `out` is unspecified. Thread-safe.
  virtual void analyze(std::span<std::string_view const> texts, Role role, TokenBatch& out) const = 0;
};

}  // namespace hyrecall::text
