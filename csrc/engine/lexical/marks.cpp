#include "engine/lexical/marks.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "core/interrupt.hpp"
#include "engine/lexical/fuzzy_terms.hpp"

namespace hyrecall {
namespace {

// The places of a term in a text, by rising position.
using Places = std::vector<std::uint32_t>;

// Bits from 0 to size - 1; others are not set.
class Bits {
 public:
  explicit Bits(std::size_t size) : size_(size), words_(size / 64 + 1) {}

  std::size_t size() const { return size_; }
  bool test(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  // Sets the bits [begin, end).
  void fill(std::size_t begin, std::size_t end) {
    for (; begin < end; begin = (begin / 64 + 1) * 64) {
      std::size_t const n = std::min(end - begin, 64 - begin % 64);
      words_[begin / 64] |= ~std::uint64_t{0} >> (64 - n) << (begin % 64);
    }
  }
  // Calls f(i) for every set bit, in rising order.
  template <typename F>
  void for_each(F&& f) const {
    for (std::size_t at = 0; at < words_.size(); ++at) {
      for (std::uint64_t word = words_[at]; word != 0; word &= word - 1)
        f(at * 64 + static_cast<std::size_t>(std::countr_zero(word)));
    }
  }
  // Keeps bit i if the other has bit i + offset.
  void keep(Bits const& other, std::size_t offset) {
    std::size_t const low = offset % 64;
    for (std::size_t at = 0; at < words_.size(); ++at) {
      std::uint64_t found = other.word(at + offset / 64) >> low;
      if (low > 0) found |= other.word(at + offset / 64 + 1) << (64 - low);
      words_[at] &= found;
    }
  }
  // Sets bit i + offset if the other has bit i. It must have room for them.
  void add(Bits const& other, std::size_t offset) {
    std::size_t const low = offset % 64;
    for (std::size_t at = 0; at < other.words_.size(); ++at) {
      std::uint64_t const given = other.words_[at];
      if (given == 0) continue;
      words_[at + offset / 64] |= given << low;
      if (low > 0 && given >> (64 - low) != 0) words_[at + offset / 64 + 1] |= given >> (64 - low);
    }
  }

 private:
  std::uint64_t word(std::size_t at) const { return at < words_.size() ? words_[at] : 0; }

  std::size_t size_;
  std::vector<std::uint64_t> words_;
};

class Finder {
 public:
  explicit Finder(text::Reader const& reader)
      : reader_(reader),
        words_(reader.batch()),
        begins_(words_.terms.size()),
        places_(words_.term_ids.size()) {
    for (std::uint32_t const term : words_.term_ids) ++begins_[term];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    for (auto at = static_cast<std::uint32_t>(places_.size()); at-- > 0;)
      places_[--begins_[words_.term_ids[at]]] = at;  // the end of a term becomes its begin
    begins_.push_back(static_cast<std::uint32_t>(places_.size()));
  }

  // The tokens of a leaf.
  Places tokens_of(Leaf const& leaf) const {
    if (leaf.kind == Leaf::Kind::kTerm) {
      std::span<std::uint32_t const> const places = places_of(leaf.terms.front());
      return {places.begin(), places.end()};
    }
    bool const is_open = leaf.kind == Leaf::Kind::kPrefix || leaf.kind == Leaf::Kind::kFuzzy;
    Places const meant = is_open ? meant_by(leaf) : Places{};
    std::vector<Part> parts;
    for (std::size_t i = 0; i < leaf.terms.size(); ++i) {
      bool const is_last = is_open && i + 1 == leaf.terms.size();
      parts.push_back({is_last ? meant : places_of(leaf.terms[i]), leaf.offsets[i]});
      if (parts.back().places.empty()) return {};
    }
    if (parts.size() > 1) return in_place(std::move(parts), leaf.slop);
    return {parts.front().places.begin(), parts.front().places.end()};
  }

 private:
  // A word of a phrase. Equal words have the same places in memory.
  struct Part {
    std::span<std::uint32_t const> places;
    std::uint32_t offset;
  };

  // The tokens of a term, by rising position.
  std::span<std::uint32_t const> places_of(std::uint32_t term) const {
    return std::span(places_).subspan(begins_[term], begins_[term + 1] - begins_[term]);
  }
  std::span<std::uint32_t const> places_of(std::string_view term) const {
    std::uint32_t const number = reader_.find(term);
    return number == kNone32 ? std::span<std::uint32_t const>{} : places_of(number);
  }

  // The tokens that the last word of a prefix or fuzzy word stands for.
  Places meant_by(Leaf const& leaf) const {
    if (leaf.kind == Leaf::Kind::kPrefix)
      return tokens_where([&](std::string_view word) { return is_begun(word, leaf); });
    std::vector<NearWord> meant;
    meant.emplace_back(leaf.terms.back(), leaf.edits);
    for (std::string const& stem : leaf.stems) meant.emplace_back(stem, leaf.edits);
    return tokens_where([&](std::string_view word) {
      return std::any_of(meant.begin(), meant.end(),
                         [&](NearWord const& one) { return one.is_near(word); });
    });
  }

  static bool is_begun(std::string_view word, Leaf const& leaf) {
    auto const begins = [&](std::string const& beginning) { return word.starts_with(beginning); };
    return begins(leaf.terms.back()) ||
           std::any_of(leaf.beginnings.begin(), leaf.beginnings.end(), begins) ||
           std::binary_search(leaf.stems.begin(), leaf.stems.end(), word);
  }

  // The tokens of the words for which f is true.
  template <typename F>
  Places tokens_where(F&& f) const {
    Places out;
    SteadyPoll poll;
    for (std::uint32_t term = 0; term < words_.terms.size(); ++term) {
      poll.step();
      if (!f(words_.terms[term])) continue;
      auto const places = places_of(term);
      out.insert(out.end(), places.begin(), places.end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // The tokens that stand together: where their displacements from the phrase's places differ by at
  // most its slop, and each of its words has one. A window is slop + 1 displacements in a row. Sets
  // of windows are bits, so that a phrase of many words costs each of them few steps.
  Places in_place(std::vector<Part> parts, std::size_t slop) const {
    std::sort(parts.begin(), parts.end(), [](Part const& a, Part const& b) {
      return std::less<>()(a.places.data(), b.places.data());
    });
    std::size_t reach = 0;
    Part const* rarest = &parts.front();
    for (Part const& part : parts) {
      reach = std::max<std::size_t>(reach, part.offset);
      if (part.places.size() < rarest->places.size()) rarest = &part;
    }
    // The windows that may hold the rarest word, by their first displacement.
    std::int64_t const first =
        displacement(*rarest, rarest->places.front()) - static_cast<std::int64_t>(slop);
    auto const n_windows =
        static_cast<std::size_t>(displacement(*rarest, rarest->places.back()) - first + 1);
    Bits windows(n_windows);
    windows.fill(0, n_windows);
    Bits by_position(n_windows + slop + reach);  // from the position `first`
    for_each_word(parts, [&](std::span<Part const> same) {
      by_position.clear();
      std::size_t filled = 0;
      for (std::uint32_t const token : same.front().places) {
        std::int64_t const at = words_.positions[token] - first;
        if (at < 0) continue;
        auto const last = static_cast<std::size_t>(at);
        std::size_t const begin = last - std::min(last, slop);
        if (begin >= by_position.size()) break;
        by_position.fill(std::max(filled, begin), std::min(last + 1, by_position.size()));
        filled = last + 1;
      }
      for (Part const& part : same) windows.keep(by_position, part.offset);
    });
    Bits held(n_windows + slop);  // the displacements in the windows that are left
    std::size_t filled = 0;
    windows.for_each([&](std::size_t at) {
      held.fill(std::max(filled, at), at + slop + 1);
      filled = at + slop + 1;
    });
    Places out;
    if (filled == 0) return out;
    for_each_word(parts, [&](std::span<Part const> same) {
      by_position.clear();
      for (Part const& part : same) by_position.add(held, part.offset);
      for (std::uint32_t const token : same.front().places) {
        std::int64_t const at = words_.positions[token] - first;
        if (at >= 0 && static_cast<std::size_t>(at) < by_position.size() &&
            by_position.test(static_cast<std::size_t>(at)))
          out.push_back(token);
      }
    });
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()),
              out.end());  // a prefix may mean a word before it
    return out;
  }

  std::int64_t displacement(Part const& part, std::uint32_t token) const {
    return std::int64_t{words_.positions[token]} - part.offset;
  }
  // Calls f with the parts of each distinct word of sorted parts.
  template <typename F>
  static void for_each_word(std::span<Part const> parts, F&& f) {
    while (!parts.empty()) {
      poll_interrupt();
      auto const end = std::find_if(parts.begin(), parts.end(), [&](Part const& part) {
        return part.places.data() != parts.front().places.data();
      });
      auto const n = static_cast<std::size_t>(end - parts.begin());
      f(parts.first(n));
      parts = parts.subspan(n);
    }
  }

  text::Reader const& reader_;
  text::TokenBatch const& words_;
  std::vector<std::uint32_t> begins_;  // [words_.terms + 1] into places_
  Places places_;                      // by term
};

}  // namespace

TextQuery as_asked(TextQuery query) {
  query.added.clear();
  for (TextQuery& child : query.children) child = as_asked(std::move(child));
  return query;
}

std::vector<Mark> find_marks(LexicalQuery const& query, text::Reader const& reader) {
  Finder const finder(reader);
  std::vector<Mark> out;
  for (std::uint32_t leaf = 0; leaf < query.leaves.size(); ++leaf) {
    poll_interrupt();
    if (query.leaves[leaf].multiplicity == 0.0) continue;  // it adds nothing to any score
    for (std::uint32_t const token : finder.tokens_of(query.leaves[leaf]))
      out.push_back({reader.batch().spans[token], leaf});
  }
  std::sort(out.begin(), out.end(), [](Mark const& a, Mark const& b) {
    return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.span.end < b.span.end;
  });
  return out;
}

}  // namespace hyrecall
