// Random texts and text queries, and the comparison of what the CPU and the emulated device find,
// bit for bit.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/float_bits.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/recall.hpp"
#include "engine/scope/filter.hpp"
#include "engine/segment_columns.hpp"
#include "native/corpus.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {

struct TextWorldOptions {
  std::vector<std::size_t> sizes;  // rows of each segment
  int n_cells = 4;
  int vocabulary = 30;
  std::size_t max_words = 10;
  bool is_wide = false;  // long texts, whose postings take four bytes
  bool has_dead = true;
  std::uint32_t dim = 0;  // of a dense column, if there is one
  DType dtype = DType::kFloat32;
};

inline std::string repeated_word(std::string const& word, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += " " + word;
  return text;
}

// Few words, so that scores are often equal; some frequencies and lengths that postings cannot say.
inline std::string world_text(Rng& rng, TextWorldOptions const& options) {
  std::string text = random_text(rng, options.max_words, options.vocabulary);
  std::size_t const way = rng.below(std::size_t{60});
  std::string const word = "w" + std::to_string(rng.below(options.vocabulary));
  if (options.is_wide) text += repeated_word("long", 250 + rng.below(std::size_t{80}));
  if (way < 3) text += repeated_word(word, 5 + rng.below(std::size_t{5}));
  if (way == 3) text += repeated_word(word, 30 + rng.below(std::size_t{5}));
  if (way == 4) text += repeated_word("filler", 253 + rng.below(std::size_t{6}));
  if (way == 5 && rng.below(10) == 0) text += repeated_word("filler", 16'400);
  return text;
}

// Vectors of few values, so that some lie equally near; a tenth of the rows has none.
inline std::shared_ptr<DenseColumn const> vectors_of_world(Rng& rng,
                                                           TextWorldOptions const& options,
                                                           std::size_t n_rows) {
  std::vector<std::uint8_t> bytes, valid;
  for (std::size_t i = 0; i < n_rows; ++i) {
    valid.push_back(rng.below(10) == 0 ? 0 : 1);
    for (std::uint32_t k = 0; k < options.dim; ++k) {
      float const value = static_cast<float>(rng.below(7)) * 0.5f - 1.5f;  // exact in every dtype
      std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
      if (options.dtype == DType::kBFloat16) bits >>= 16;
      if (options.dtype == DType::kFloat16) bits = float16_bits(value);
      std::uint8_t raw[4];
      std::memcpy(raw, &bits, 4);
      bytes.insert(bytes.end(), raw, raw + item_size(options.dtype));
    }
  }
  std::vector<std::uint32_t> order(n_rows);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<MatrixChunk> const chunks{{std::move(bytes), n_rows}};
  return DenseColumn::build("vector", options.dtype, options.dim, chunks, valid, order, 1);
}

inline Snapshot random_text_world(Rng& rng, TextWorldOptions const& options) {
  Snapshot out;
  Seq next = 0;
  for (std::size_t const n_rows : options.sizes) {
    Documents documents;
    std::vector<std::optional<std::int64_t>> numbers;
    for (std::size_t i = 0; i < n_rows; ++i) {
      auto const cell = static_cast<int>(i * static_cast<std::size_t>(options.n_cells) / n_rows);
      documents.cells.push_back(cell_name(cell));
      documents.texts.push_back(rng.below(12) == 0 ? std::nullopt
                                                   : std::optional(world_text(rng, options)));
      documents.seqs.push_back(++next * 7919 % 100'003);  // they neither rise nor fall
      numbers.push_back(rng.below(6) == 0 ? std::nullopt
                                          : std::optional(rng.below(std::int64_t{12}) - 6));
    }
    Segment::Parts parts;
    parts.seqs = documents.seqs;
    parts.cells = directory_of(documents);
    parts.keys = KeyTable(ints_of({documents.seqs.begin(), documents.seqs.end()}), parts.cells);
    parts.lexical.push_back(lexical_of(documents));
    if (options.dim > 0) parts.dense.push_back(vectors_of_world(rng, options, n_rows));
    parts.attributes.push_back(std::make_shared<AttributeColumn const>(scalar_column(numbers)));
    SegmentView view(std::make_shared<Segment>(std::move(parts)));
    std::vector<Row> dead;
    for (Row row = 0; options.has_dead && row < n_rows; ++row) {
      if (rng.below(7) == 0) dead.push_back(row);
    }
    out.segments.push_back(std::make_shared<SegmentView const>(view.without(dead)));
  }
  return out;
}

inline Snapshot with_postings(Snapshot const& snapshot,
                              std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  std::vector<std::vector<LexicalArrays>> lexical;
  for (auto const& view : snapshot.segments) lexical.push_back(lexical_arrays(view->segment()));
  Snapshot out = snapshot;
  out.device = std::make_shared<DeviceSnapshot>(folder, 0, snapshot, nullptr,
                                                std::span<GuestColumn const>{}, lexical);
  return out;
}

inline std::string query_words(Rng& rng, std::size_t most, int vocabulary) {
  std::string text;
  for (std::size_t n = 1 + rng.below(most); n > 0; --n)
    text += " w" + std::to_string(static_cast<int>(rng.unit() * rng.unit() * vocabulary));
  return text;
}

// A tree of words, phrases and prefixes; most: words of a leaf.
inline TextQuery random_tree(Rng& rng, int depth, std::size_t most, int vocabulary) {
  std::size_t const way = rng.below(std::size_t{depth > 0 ? 8u : 3u});
  if (way == 0) return TextQuery::phrase(query_words(rng, 2, vocabulary), rng.below(3u));
  if (way == 1) {
    std::string const word = "w" + std::to_string(rng.below(10));
    return rng.below(2) == 0 ? TextQuery::prefix(word, 0) : TextQuery::fuzzy(word, 1);
  }
  if (way == 2) return TextQuery::of_text(query_words(rng, most, vocabulary));
  if (way == 3)
    return TextQuery::boosted(0.5 + rng.below(4), random_tree(rng, 0, most, vocabulary));
  std::vector<TextQuery> children;
  for (std::size_t n = 1 + rng.below(std::size_t{3}); n > 0; --n)
    children.push_back(random_tree(rng, depth - 1, most, vocabulary));
  return way < 6 ? TextQuery::all(std::move(children)) : TextQuery::any(std::move(children));
}

// Every form of a query, by chance; some ask nothing.
inline std::optional<TextQuery> random_text_query(Rng& rng, int vocabulary) {
  std::size_t const way = rng.below(std::size_t{12});
  if (way == 0) return std::nullopt;
  if (way == 1) return TextQuery::of_text(rng.below(2) == 0 ? "" : "unknown words");
  if (way < 4) return random_tree(rng, 3, 3, vocabulary);
  if (way == 4) return random_tree(rng, 0, 2, vocabulary);
  return TextQuery::of_text(query_words(rng, way == 5 ? 90 : 6, vocabulary));
}

inline Bm25 random_bm25(Rng& rng, Bm25Variant variant) {
  std::array const k1{0.0, 0.9, 1.2, 2.0};
  std::array const b{0.0, 0.4, 0.75, 1.0};
  bool const has_delta = variant == Bm25Variant::kPlus || variant == Bm25Variant::kLong;
  Bm25 out{variant, k1[rng.below(k1.size())], b[rng.below(b.size())],
           has_delta ? 0.5 * rng.below(3) : 0.0};
  if (out.b == 0.4) out.b_mixed = 1.0;
  if (out.b == 1.0) out.b_mixed = 0.25;
  return out;
}

inline BatchRequest random_text_request(Rng& rng, TextWorldOptions const& world,
                                        Bm25Variant variant, std::size_t n_queries,
                                        std::size_t depth) {
  BatchRequest out;
  std::size_t const n_scopes = 1 + rng.below(std::size_t{4});
  for (std::size_t s = 0; s < n_scopes; ++s) {
    Scope scope;
    for (int cell = 0; cell <= world.n_cells; ++cell) {  // the last is no document's
      if (s == 0 || rng.below(2) == 0) scope.cells.push_back(encoded(cell_name(cell)));
    }
    out.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
  }
  out.filters.push_back(
      std::make_shared<FilterProgram const>(FilterProgram::codes_between(0, -2, 3)));
  out.filters.push_back(std::make_shared<FilterProgram const>(FilterProgram::is_null(0)));
  out.n_queries = n_queries;
  LexicalRequest arm;
  arm.name = "text";
  arm.bm25 = random_bm25(rng, variant);
  arm.analyzer = word_analyzer();
  for (std::size_t q = 0; q < n_queries; ++q) {
    out.scope_of.push_back(rng.below(static_cast<std::uint32_t>(n_scopes)));
    std::uint32_t const filter = rng.below(5u);
    out.filter_of.push_back(filter < 2 ? filter : kNone32);
    arm.queries.push_back(random_text_query(rng, world.vocabulary));
  }
  out.lexical.push_back(std::move(arm));
  out.depth = depth;
  out.threads = 1 + rng.below(2);
  return out;
}

inline bool same_candidates(QueryCandidates const& a, QueryCandidates const& b) {
  if (a.docs.size() != b.docs.size() || a.lists != b.lists || a.scores.size() != b.scores.size())
    return false;
  for (std::size_t i = 0; i < a.docs.size(); ++i) {
    if (a.docs[i].seq != b.docs[i].seq || a.docs[i].doc.segment != b.docs[i].doc.segment ||
        a.docs[i].doc.row != b.docs[i].doc.row)
      return false;
  }
  return a.scores.empty() ||
         std::memcmp(a.scores.data(), b.scores.data(), a.scores.size() * sizeof(float)) == 0;
}

inline std::vector<QueryCandidates> candidates_of(Snapshot const& snapshot,
                                                  BatchRequest const& request) {
  Execution const execution(snapshot, request);
  return execution.candidates(execution.statistics());
}

// How many of the queries found something.
inline std::size_t check_texts(Snapshot const& on_host, Snapshot const& on_device,
                               BatchRequest const& request) {
  std::vector<QueryCandidates> const expected = candidates_of(on_host, request);
  std::vector<QueryCandidates> const found = candidates_of(on_device, request);
  CHECK_EQ(found.size(), expected.size());
  std::size_t n_found = 0;
  for (std::size_t q = 0; q < found.size(); ++q) {
    CHECK(same_candidates(found[q], expected[q]));
    n_found += found[q].docs.empty() ? 0 : 1;
  }
  return n_found;
}

// The floor is a score that some row has: the hardest to keep, and to leave out.
inline void set_floor(Rng& rng, Snapshot const& on_host, BatchRequest& request) {
  for (QueryCandidates const& one : candidates_of(on_host, request)) {
    if (one.scores.empty()) continue;
    request.lexical[0].floor = {one.scores[rng.below(one.scores.size())], true, rng.below(2) == 0};
    if (rng.below(3) == 0) return;
  }
}

inline constexpr std::array kBm25Variants{
    Bm25Variant::kOkapi, Bm25Variant::kLucene, Bm25Variant::kFts5, Bm25Variant::kRobertson,
    Bm25Variant::kAtire, Bm25Variant::kPlus,   Bm25Variant::kLong};

}  // namespace hyrecall::testing
