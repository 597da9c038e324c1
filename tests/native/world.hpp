// A random table in a few segments, its documents as plain data, and random requests for it: what
// the tests of shaping and of the arms beside text and vectors compare the engine with.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/dense/column.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/filter.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {

struct Doc {
  std::uint32_t segment = 0;
  Row row = 0;
  Seq seq = 0;
  bool is_live = true;
  std::string cell;
  std::int64_t key = 0;
  std::vector<float> vector;  // empty: null
  std::optional<std::int64_t> number;
  std::optional<double> rating;  // NaN at times
  std::vector<std::string> tags;
  std::optional<std::string> kind;
  std::vector<std::int64_t> members;
};

// Places of the attributes in a segment.
enum Attribute : std::size_t { kNumber, kRating, kTags, kKind, kMembers };

struct World {
  std::vector<Doc> docs;  // by (segment, row), the dead ones too
  Snapshot snapshot;
};

struct WorldOptions {
  std::size_t n_segments = 3;
  std::size_t max_rows = 300;  // of a segment
  int n_cells = 5;
  std::uint32_t dim = 5;
  DType dtype = DType::kFloat32;
  bool has_text_keys = false;
  std::int64_t n_keys = 1000;
  std::size_t max_members = 4;
  FirstPassChoice first_pass = FirstPassChoice::kAny;
};

inline std::string cell_name(int cell) {
  return "cell" + std::to_string(1000 + cell);
}

// A key that is a string: its order is not that of the numbers.
inline std::string key_name(std::int64_t key) {
  return "k" + std::to_string(key);
}

inline std::vector<std::uint8_t> bits_of(std::vector<bool> const& valid) {
  std::vector<std::uint8_t> bits((valid.size() + 7) / 8, 0);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i]) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1u << (i % 8));
  }
  return bits;
}

template <typename T>
AttributeColumn scalar_column(std::vector<std::optional<T>> const& values) {
  std::vector<T> filled;
  std::vector<bool> valid;
  for (auto const& value : values) {
    filled.push_back(value.value_or(T{}));
    valid.push_back(value.has_value());
  }
  std::vector<std::uint8_t> const bits = bits_of(valid);
  if constexpr (std::is_same_v<T, std::string>) {
    return build_scalar_column(strings_of(filled), {bits.data(), 0});
  } else {
    return build_scalar_column(std::span<T const>(filled), {bits.data(), 0});
  }
}

template <typename T>
AttributeColumn list_column(std::vector<std::vector<T>> const& lists) {
  std::vector<std::int64_t> offsets{0};
  std::vector<T> values;
  for (auto const& list : lists) {
    values.insert(values.end(), list.begin(), list.end());
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  if constexpr (std::is_same_v<T, std::string>) {
    return build_list_column(offsets, {}, strings_of(values), {});
  } else {
    return build_list_column(offsets, {}, std::span<T const>(values), {});
  }
}

inline std::shared_ptr<DenseColumn const> dense_column(std::vector<Doc> const& docs,
                                                       WorldOptions const& options) {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> valid;
  for (Doc const& doc : docs) {
    valid.push_back(doc.vector.empty() ? 0 : 1);
    std::vector<float> values = doc.vector;
    values.resize(options.dim, 7.0f);  // what a null row holds means nothing
    for (float value : values) {
      auto word = std::bit_cast<std::uint32_t>(value);
      if (options.dtype == DType::kBFloat16) word >>= 16;
      std::uint8_t raw[4];
      std::memcpy(raw, &word, 4);
      bytes.insert(bytes.end(), raw, raw + item_size(options.dtype));
    }
  }
  std::vector<std::uint32_t> order(docs.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<MatrixChunk> const chunks{{std::move(bytes), docs.size()}};
  return DenseColumn::build("vector", options.dtype, options.dim, chunks, valid, order, 1,
                            options.first_pass);
}

inline std::shared_ptr<Segment const> segment_of(std::vector<Doc> const& docs,
                                                 WorldOptions const& options) {
  std::vector<std::string> cells, key_names;
  std::vector<std::int64_t> keys;
  std::vector<Seq> seqs;
  std::vector<std::optional<std::int64_t>> numbers;
  std::vector<std::optional<double>> ratings;
  std::vector<std::vector<std::string>> tags, member_names;
  std::vector<std::optional<std::string>> kinds;
  std::vector<std::vector<std::int64_t>> members;
  for (Doc const& doc : docs) {
    cells.push_back(doc.cell);
    keys.push_back(doc.key);
    key_names.push_back(key_name(doc.key));
    seqs.push_back(doc.seq);
    numbers.push_back(doc.number);
    ratings.push_back(doc.rating);
    tags.push_back(doc.tags);
    kinds.push_back(doc.kind);
    members.push_back(doc.members);
    member_names.emplace_back();
    for (std::int64_t member : doc.members) member_names.back().push_back(key_name(member));
  }
  Segment::Parts parts;
  parts.seqs = std::move(seqs);
  std::vector<CellPart> const cell_parts{column_of(cells)};
  parts.cells = CellDirectory(cell_parts, docs.size());
  parts.keys = options.has_text_keys ? KeyTable(column_of(key_names), parts.cells)
                                     : KeyTable(ints_of(keys), parts.cells);
  parts.dense.push_back(dense_column(docs, options));
  for (AttributeColumn& column : std::vector{
           scalar_column(numbers), scalar_column(ratings), list_column(tags), scalar_column(kinds),
           options.has_text_keys ? list_column(member_names) : list_column(members)})
    parts.attributes.push_back(std::make_shared<AttributeColumn const>(std::move(column)));
  return std::make_shared<Segment>(std::move(parts));
}

// Few values of everything, so that ties, near-duplicates and shared tags are many.
inline Doc random_doc(Rng& rng, WorldOptions const& options) {
  static std::vector<std::string> const words{"oak", "fir tree", "oakum", "tea", "éa", "séab"};
  Doc doc;
  doc.cell = cell_name(rng.below(options.n_cells));
  doc.key = rng.below(options.n_keys);
  std::uint64_t const way = rng.below(std::uint64_t{10});
  if (way > 0) {  // a tenth has no vector, a tenth a zero row, the others lie about three centres
    float const step = options.dtype == DType::kBFloat16 ? 0.109375f : 0.1f;  // exact in the dtype
    std::uint32_t const centre = rng.below(std::uint32_t{3});
    for (std::uint32_t i = 0; i < options.dim; ++i) {
      float const value = static_cast<float>(static_cast<int>(i * (centre + 1) % 4) - 1) +
                          static_cast<float>(rng.below(4)) * step;
      doc.vector.push_back(way == 1 ? 0.0f : value);
    }
  }
  if (rng.below(6) != 0) doc.number = rng.below(std::int64_t{12}) - 6;
  std::array const ratings{0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, std::nan("")};
  if (rng.below(6) != 0) doc.rating = ratings[rng.below(ratings.size())];
  for (std::size_t n = rng.below(std::size_t{4}); n > 0; --n)
    doc.tags.push_back(words[rng.below(words.size())]);
  if (rng.below(4) != 0) doc.kind = words[rng.below(words.size())];
  for (std::size_t n = rng.below(options.max_members + 1); n > 0; --n)
    doc.members.push_back(rng.below(options.n_keys));
  return doc;
}

inline World random_world(Rng& rng, WorldOptions const& options) {
  std::vector<std::size_t> sizes;
  for (std::size_t s = 0; s < options.n_segments; ++s)
    sizes.push_back(1 + rng.below(options.max_rows));
  // Sequence numbers in no order of segments.
  std::vector<Seq> seqs(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  for (std::size_t i = 0; i < seqs.size(); ++i) seqs[i] = static_cast<Seq>(3 * i + 7);
  for (std::size_t i = seqs.size(); i > 1; --i) std::swap(seqs[i - 1], seqs[rng.below(i)]);
  World out;
  std::set<std::pair<std::string, std::int64_t>> living;
  for (std::uint32_t s = 0; s < options.n_segments; ++s) {
    std::vector<Doc> docs;
    std::set<std::pair<std::string, std::int64_t>> here;
    for (std::size_t i = 0; i < sizes[s]; ++i) {
      Doc doc = random_doc(rng, options);
      if (!here.emplace(doc.cell, doc.key).second) continue;  // once in a segment
      doc.seq = seqs.back();
      seqs.pop_back();
      doc.is_live = rng.below(7) != 0 && living.emplace(doc.cell, doc.key).second;
      docs.push_back(std::move(doc));
    }
    std::sort(docs.begin(), docs.end(), [](Doc const& a, Doc const& b) {
      return a.cell != b.cell ? a.cell < b.cell : a.seq < b.seq;
    });
    std::vector<Row> dead;
    for (Row row = 0; row < docs.size(); ++row) {
      docs[row].segment = s;
      docs[row].row = row;
      if (!docs[row].is_live) dead.push_back(row);
    }
    SegmentView const view(segment_of(docs, options));
    out.snapshot.segments.push_back(std::make_shared<SegmentView const>(view.without(dead)));
    out.docs.insert(out.docs.end(), docs.begin(), docs.end());
  }
  return out;
}

// A request, and what its scopes and filters mean.
struct Asked {
  BatchRequest request;
  std::vector<std::set<std::string>> scopes;
  std::vector<std::function<bool(Doc const&)>> filters;

  bool in_scope(std::size_t query, Doc const& doc) const {
    return doc.is_live && scopes[request.scope_of[query]].contains(doc.cell);
  }
  bool sees(std::size_t query, Doc const& doc) const {
    std::uint32_t const filter = request.filter_of[query];
    return in_scope(query, doc) && (filter == kNone32 || filters[filter](doc));
  }
};

inline void add_filters(Asked& asked) {
  using Kind = FilterProgram::Kind;
  FilterProgram between, missing, any_of;
  between.kind = Kind::kCodesBetween;
  between.column = kNumber;
  between.low = -2;
  between.high = 3;
  missing.kind = Kind::kIsNull;
  missing.column = kNumber;
  any_of.kind = Kind::kTextAnyOf;
  any_of.column = kKind;
  any_of.texts = {"tea", "oak", "nothing"};
  for (FilterProgram const& filter : {between, missing, any_of})
    asked.request.filters.push_back(std::make_shared<FilterProgram const>(filter));
  asked.filters = {
      [](Doc const& doc) { return doc.number && *doc.number >= -2 && *doc.number <= 3; },
      [](Doc const& doc) { return !doc.number; },
      [](Doc const& doc) { return doc.kind == "tea" || doc.kind == "oak"; },
  };
}

// n_scopes scopes of any number of cells, among them one that no document has.
inline Asked random_asked(Rng& rng, int n_cells, std::size_t n_queries, std::size_t n_scopes,
                          int threads) {
  Asked out;
  for (std::size_t s = 0; s < n_scopes; ++s) {
    std::set<std::string> cells;
    int const one_in = 1 + rng.below(3);
    for (int cell = 0; cell <= n_cells; ++cell) {
      if (rng.below(one_in) == 0) cells.insert(cell_name(cell));
    }
    Scope scope;
    for (std::string const& cell : cells) scope.cells.push_back(encoded(cell));
    out.request.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
    out.scopes.push_back(std::move(cells));
  }
  add_filters(out);
  out.request.n_queries = n_queries;
  for (std::size_t q = 0; q < n_queries; ++q) {
    out.request.scope_of.push_back(rng.below(static_cast<std::uint32_t>(n_scopes)));
    std::uint32_t const filter = rng.below(std::uint32_t{6});
    out.request.filter_of.push_back(filter < out.filters.size() ? filter : kNone32);
  }
  out.request.threads = threads;
  return out;
}

}  // namespace hyrecall::testing
