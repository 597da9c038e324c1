#include "engine/related/ordered.hpp"

#include <algorithm>
#include <functional>

#include "core/error.hpp"
#include "engine/scope/locate.hpp"

namespace hyrecall {
namespace {

// A column of a segment as a key of the order.
struct KeyOnSegment {
  std::int64_t const* codes;
  std::uint64_t const* valid;  // null: every row has a value
  Strings const* texts;        // null: of no column of texts
  bool is_float;
  bool descending;

  bool has(Row row) const {
    if (valid != nullptr && ((valid[row >> 6] >> (row & 63)) & 1) == 0) return false;
    return !(is_float && codes[row] == kNanCode);
  }
};

// The order of rows, each in a segment of its own or all in one.
class RowOrder {
 public:
  RowOrder(Snapshot const& snapshot, std::span<SortKey const> keys) : n_keys_(keys.size()) {
    for (auto const& view : snapshot.segments) {
      Segment::Parts const& parts = view->segment().p;
      seqs_.push_back(parts.seqs.data());
      for (SortKey const& key : keys) {
        require(key.attribute < parts.attributes.size(), "an attribute column");
        AttributeColumn const& column = *parts.attributes[key.attribute];
        require(!column.is_list, "one value a row");
        keys_.push_back({column.codes.data(), column.valid.empty() ? nullptr : column.valid.data(),
                         column.kind == CodeKind::kText ? &column.dictionary : nullptr,
                         column.kind == CodeKind::kFloat, key.descending});
      }
    }
  }

  bool operator()(DocRef a, DocRef b) const {
    KeyOnSegment const* const of_a = keys_.data() + a.segment * n_keys_;
    KeyOnSegment const* const of_b = keys_.data() + b.segment * n_keys_;
    for (std::size_t i = 0; i < n_keys_; ++i) {
      bool const has = of_a[i].has(a.row);
      if (has != of_b[i].has(b.row)) return has;
      if (!has) continue;
      int const order = compare(of_a[i], a.row, of_b[i], b.row);
      if (order != 0) return (order < 0) != of_a[i].descending;
    }
    return seqs_[a.segment][a.row] < seqs_[b.segment][b.row];
  }

 private:
  static int compare(KeyOnSegment const& a, Row a_row, KeyOnSegment const& b, Row b_row) {
    std::int64_t const a_code = a.codes[a_row], b_code = b.codes[b_row];
    if (a.texts != b.texts) {  // each segment numbers its own texts
      return (*a.texts)[static_cast<std::size_t>(a_code)].compare(
          (*b.texts)[static_cast<std::size_t>(b_code)]);
    }
    return a_code < b_code ? -1 : a_code > b_code ? 1 : 0;
  }

  std::size_t n_keys_;
  std::vector<KeyOnSegment> keys_;  // [segment][key]
  std::vector<Seq const*> seqs_;    // [segment]
};

}  // namespace

std::vector<DocRef> ordered_rows(Snapshot const& snapshot, GroupTiles const& tiles,
                                 std::span<SortKey const> keys, std::size_t n) {
  constexpr std::size_t kSlack = 32;
  RowOrder const order(snapshot, keys);
  auto const before = std::cref(order);
  std::vector<DocRef> best;
  if (n == 0) return best;
  DocRef worst = kNowhere;  // what comes after it is not among the first n
  for_each_row(tiles, [&](DocRef doc) {
    if (worst != kNowhere && !before(doc, worst)) return;
    best.push_back(doc);
    if (best.size() < 2 * n + kSlack) return;
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(n) - 1, best.end(),
                     before);
    best.resize(n);
    worst = best.back();
  });
  std::sort(best.begin(), best.end(), before);
  if (best.size() > n) best.resize(n);
  return best;
}

}  // namespace hyrecall
