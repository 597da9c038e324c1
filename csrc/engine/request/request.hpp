// One batch of queries as plain data, closed once an execution has taken it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/formulas.hpp"
#include "core/fusion_math.hpp"
#include "core/small_vector.hpp"
#include "core/types.hpp"
#include "engine/doc_ref.hpp"
#include "engine/request/guest_queries.hpp"
#include "engine/request/sparse_query.hpp"
#include "engine/request/text_query.hpp"
#include "kernels/settings.hpp"
#include "text/analyzer.hpp"

namespace hyrecall {

struct FilterProgram;  // engine/scope/filter.hpp

// The cells a query may see, as encoded by encode_cell. Empty: it sees nothing.
struct Scope {
  SmallVector<std::string, 1> cells{};
};

// The least score an arm, or the fusion, lets through.
template <typename T>
struct Floor {
  T value = 0;
  bool set = false;
  bool strict = false;
  bool passes(T score) const { return !set || (strict ? score > value : score >= value); }
};

inline constexpr std::uint32_t kAllTables = kNone32;

// The terms that a word of a query finds, where it stands for more over all parts of the index.
struct ChosenTerms {
  std::size_t query;
  std::size_t leaf;
  std::vector<std::string> terms;
};

struct LexicalRequest {
  std::size_t column = 0;  // of Segment::Parts::lexical
  std::string name;
  Bm25 bm25{Bm25Variant::kLucene, 1.2, 0.75};
  std::shared_ptr<text::Analyzer const> analyzer;
  std::vector<std::optional<TextQuery>> queries;  // [n_queries]
  Floor<float> floor;
  std::uint32_t table = kAllTables;  // of BatchRequest::tables
  // [n_queries], or empty: texts that another part of the index could not search, which are not
  // searched here either, or had to cut.
  std::vector<Refusal> refused{};
  std::vector<ChosenTerms> chosen{};
};

struct DenseRequest {
  std::size_t column = 0;  // of Segment::Parts::dense
  std::string name;
  // Query q is number begin + q of these; shared by a request and its slices.
  std::shared_ptr<DenseQueries const> queries{};
  Floor<float> floor;
  std::shared_ptr<GuestQueries> guest{};  // instead: rows of a tensor on the device
  std::size_t begin = 0;
  std::uint32_t table = kAllTables;  // of BatchRequest::tables
  // Of a column whose rows have many vectors: query q has the vectors of `queries` from number
  // bundles[begin + q] to bundles[begin + q + 1].
  std::shared_ptr<std::vector<std::size_t> const> bundles{};
  // Instead of `queries`, of a column of sparse vectors: query q is number begin + q of these.
  std::shared_ptr<SparseQueries const> sparse{};
  // It lists nothing by itself: it scores what other arms list.
  bool completes_only = false;

  // Whether a query has one vector, of numbers.
  bool is_plain() const { return bundles == nullptr && sparse == nullptr; }
  // Of a query of one vector.
  DenseQuery query(std::size_t q) const {
    return guest == nullptr ? (*queries)[begin + q] : guest->query(begin + q);
  }
  // The vectors of a query of many, without the missing ones.
  std::vector<DenseQuery> bundle(std::size_t q) const;
  bool has(std::size_t q) const;  // a vector
};

// A document that the caller names, with its score in the arm.
struct ListedDoc {
  DocRef doc;
  float score;  // finite
};

// An arm whose candidates come with the request, in any order. What the query may not see is
// dropped without a word.
struct ListedRequest {
  std::string name;
  std::vector<std::vector<ListedDoc>> queries;  // [n_queries]
  Floor<float> floor;
};

// Documents of all queries as those of each: query q has the documents from offsets[q] to
// offsets[q + 1]. score: one a document; empty: all have 0.
std::vector<std::vector<ListedDoc>> listed_by_query(std::size_t n_queries,
                                                    std::span<std::int64_t const> offsets,
                                                    std::span<std::uint32_t const> segment,
                                                    std::span<Row const> row,
                                                    std::span<float const> score);

struct Fusion {
  using Kind = FusionKind;
  using Scale = FusionScale;
  Kind kind = Kind::kNone;
  std::vector<double> weights;  // [n_arms], >= 0
  double rank_constant = 60.0;
  std::vector<Scale> scales;  // [n_arms] what its scores are worth in sums and maxima
  bool complete = true;       // use scores of documents outside the arm's own list too
  // Of a sum: each query's weights of its lexical and dense arms come from its candidates.
  std::optional<double> balance;
  bool ranks_by_place = false;  // documents of equal score do not share a rank
};

// What a row's value in an attribute column adds to its score. Rows with another value, or none,
// get 0.
struct Prior {
  std::size_t attribute = 0;         // of Segment::Parts::attributes
  std::vector<std::string> texts{};  // of a column of texts; else codes has the values
  std::vector<std::int64_t> codes{};
  std::vector<double> addends{};  // [n values] shares of the best possible fused score
};

// What the rows around a hit, and its own value in a column, add to its fused score: a stage right
// behind the fusion.
struct Evidence {
  std::vector<double> neighbours;  // weights of the rows 1, 2, ... places away in the same thread
  double thread = 0.0;             // weight of BM25 of the thread as one document
  double length = 0.0;             // weight of the row's own length
  std::optional<Prior> prior{};

  std::size_t n_distances() const { return neighbours.size(); }
  // Addends to a score: of each distance, of the thread, of the length, of the prior.
  std::size_t n_addends() const { return neighbours.size() + 3; }
  bool has_threads() const { return !neighbours.empty() || thread > 0.0; }
};

inline constexpr std::size_t kMostDistances = 8;

// Arms are numbered lexical first, then dense, then listed, in the order of these vectors.
struct BatchRequest {
  std::size_t n_queries = 0;
  std::size_t first_query = 0;                       // its number in the batch that slice() cut
  std::vector<std::shared_ptr<Scope const>> scopes;  // distinct
  std::vector<std::uint32_t> scope_of;               // [n_queries]
  // Parts of every query's scope, as numbers of scopes: [table][n_queries]. An arm of a table sees
  // nothing else. Either every lexical and dense arm has a table, each table as many, or none has.
  std::vector<std::vector<std::uint32_t>> tables;
  std::vector<std::shared_ptr<FilterProgram const>> filters;  // distinct
  std::vector<std::uint32_t> filter_of;                       // [n_queries], kNone32 = none
  std::vector<LexicalRequest> lexical;
  std::vector<DenseRequest> dense;
  std::vector<ListedRequest> listed;
  std::size_t depth = 100;  // how many documents an arm hands on
  Fusion fusion;
  Floor<double> min_fused;
  bool normalize = false;
  std::optional<Evidence> evidence{};
  std::size_t limit = 10;
  std::size_t offset = 0;
  int threads = 1;
  // The CPU searches a batch of texts alone that has at most so many postings in its scopes, also
  // where the snapshot is on a device, with the same bits. 0: never.
  std::uint64_t host_postings = 0;
  Settings settings{};
  bool is_read = false;  // an execution has taken its arms: no more are added

  // What is asked is put together by the functions below; each throws once an execution has taken
  // the request, and where its arguments do not fit the queries.

  // numbers: [n_queries] of `distinct`, kNone32 = none.
  void set_filters(std::vector<std::shared_ptr<FilterProgram const>> distinct,
                   std::span<std::uint32_t const> numbers);
  void add(LexicalRequest arm);
  void add(DenseRequest arm);
  void add(ListedRequest arm);
  // After the last arm.
  void set_fusion(Fusion how, Floor<double> floor, bool normalized);
  // The stage right behind the fusion; where it has threads, the snapshots need them.
  void set_evidence(Evidence how);
  // Divides every query's scope by the value of one part of a cell: a table for each of these
  // encoded values, and one for all others. Before the first arm.
  void divide(std::size_t part, std::span<std::string const> values);
  std::span<std::uint32_t const> scopes_of(std::uint32_t table) const {
    return table == kAllTables ? scope_of : tables[table];
  }
  // Releases the tensors whose queries have been read.
  void release_guests() const;
  std::size_t n_arms() const { return lexical.size() + dense.size() + listed.size(); }
  // The queries [begin, end) as a request of their own: a batch of any size runs in pieces, with
  // the same bits.
  BatchRequest slice(std::size_t begin, std::size_t end) const;

 private:
  void require_open() const;
  void require_table(std::uint32_t table) const;
};

}  // namespace hyrecall
