// A second look: what the best rows of a query's first answer add to the query.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/request/request.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

struct FeedbackParams {
  double dense = 0.0;       // weight of the mean of the rows' unit vectors
  std::size_t n_terms = 0;  // at most so many terms are added
  double lexical = 0.0;     // what their boosts are together, for each token of the query
};

// The best rows of each query, best first: those of query q from offsets[q] to offsets[q + 1].
struct FirstRows {
  std::span<std::int64_t const> offsets;  // [n_queries + 1]
  std::span<std::uint32_t const> segment;
  std::span<Row const> row;

  std::size_t n(std::size_t query) const {
    return static_cast<std::size_t>(offsets[query + 1] - offsets[query]);
  }
  DocRef at(std::size_t query, std::size_t number) const {
    std::size_t const i = static_cast<std::size_t>(offsets[query]) + number;
    return {segment[i], row[i]};
  }
};

// The query vectors of one dense arm.
struct MovedVectors {
  std::vector<float> values;          // [n_queries, dim]
  std::vector<std::uint8_t> present;  // [n_queries]
  std::vector<std::uint8_t> moved;    // [n_queries] whether rows have moved it
};

// Empty where the parameters leave an arm's queries as they are.
struct SecondLook {
  std::vector<MovedVectors> vectors;                                  // [dense arm]
  std::vector<std::vector<std::vector<TextQuery::AddedTerm>>> terms;  // [lexical arm][query]
};

// Writes the unit query, moved towards the mean of the unit vectors of its rows. False, and nothing
// is written: no row has a vector, or nothing but rounding would be left of the query.
bool move_query(Snapshot const& snapshot, std::size_t column, DenseQuery query,
                FirstRows const& rows, std::size_t number, double weight, std::span<float> out);

// Each term of the rows with the sum of its shares, best row first; points into the segments.
struct TermShares {
  std::map<std::string_view, double> shares;  // by UTF-8 bytes
  std::size_t n_rows = 0;                     // with a text
};
TermShares share_terms(Snapshot const& snapshot, std::size_t column, FirstRows const& rows,
                       std::size_t number);

// How many terms are looked up for one query: those with the largest shares.
inline constexpr std::size_t kMostSharedTerms = 256;
std::vector<std::string_view> most_shared(TermShares const& found);

// The terms that are worth most, of those that several documents hold. counts: documents of the
// scope that hold each of terms.
std::vector<TextQuery::AddedTerm> choose_terms(TermShares const& found,
                                               std::span<std::string_view const> terms,
                                               std::span<std::int64_t const> counts,
                                               std::int64_t n_docs, Bm25Variant variant,
                                               double n_own, FeedbackParams const& params);

// The request with other vectors and more terms; no execution has taken it.
BatchRequest ask_again(BatchRequest const& request, SecondLook look);

}  // namespace hyrecall
