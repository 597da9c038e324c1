// Random requests of texts, vectors and listed documents, for a device that makes hits of them.
#pragma once

#include <utility>
#include <vector>

#include "native/pool_cases.hpp"
#include "native/text_cases.hpp"

namespace hyrecall::testing {

struct HybridRound {
  TextWorldOptions world;
  Bm25Variant variant = Bm25Variant::kLucene;
  std::size_t n_queries = 6;
  std::size_t depth = 10;
  std::size_t n_lexical = 1;
  std::size_t n_dense = 1;
  bool has_listed = false;
  bool has_floors = false;
  bool has_little_room = false;  // so that searches lose queries
};

inline DenseRequest random_dense_arm(Rng& rng, HybridRound const& round) {
  DenseRequest out;
  out.name = "vector";
  std::vector<float> values;
  std::vector<std::uint8_t> present;
  for (std::size_t q = 0; q < round.n_queries; ++q) {
    present.push_back(rng.below(6) == 0 ? 0 : 1);
    bool const is_zero = rng.below(8) == 0;
    for (std::uint32_t i = 0; i < round.world.dim; ++i)
      values.push_back(is_zero ? 0.0f : static_cast<float>(rng.below(5)) - 1.75f);
  }
  out.queries = prepare_queries(values.data(), round.n_queries, round.world.dim, present, "v", 1);
  if (round.has_floors && rng.below(2) == 0)
    out.floor = {static_cast<float>(rng.unit()) - 0.4f, true, rng.below(2) == 0};
  return out;
}

inline ListedRequest random_listed_arm(Rng& rng, Snapshot const& snapshot, std::size_t n_queries) {
  ListedRequest out;
  out.name = "listed";
  out.queries.resize(n_queries);
  for (auto& docs : out.queries) {
    for (std::size_t n = rng.below(std::size_t{30}); n > 0; --n) {
      auto const segment = rng.below(static_cast<std::uint32_t>(snapshot.segments.size()));
      auto const n_rows = static_cast<Row>(snapshot.segments[segment]->segment().n_rows());
      docs.push_back({{segment, rng.below(n_rows)}, list_score(rng, true)});
    }
  }
  return out;
}

inline BatchRequest random_hybrid_request(Rng& rng, HybridRound const& round,
                                          Snapshot const& on_host) {
  BatchRequest out =
      random_text_request(rng, round.world, round.variant, round.n_queries, round.depth);
  for (LexicalRequest& arm : out.lexical) {
    for (auto& query : arm.queries) {  // trees of more leaves are searched by the CPU
      if (query && rng.below(2) == 0) query = TextQuery::of_text(query_words(rng, 6, 30));
    }
  }
  if (round.has_floors) set_floor(rng, on_host, out);
  if (round.n_lexical == 0) out.lexical.clear();
  if (round.n_lexical == 2) {
    LexicalRequest other = out.lexical.front();
    other.bm25 = random_bm25(rng, kBm25Variants[rng.below(kBm25Variants.size())]);
    std::reverse(other.queries.begin(), other.queries.end());
    out.lexical.push_back(std::move(other));
  }
  for (std::size_t arm = 0; arm < round.n_dense; ++arm)
    out.dense.push_back(random_dense_arm(rng, round));
  if (round.has_listed) out.listed.push_back(random_listed_arm(rng, on_host, round.n_queries));
  out.fusion = random_fusion(rng, out);
  set_cut(rng, out, candidates_of(on_host, out));
  return out;
}

}  // namespace hyrecall::testing
