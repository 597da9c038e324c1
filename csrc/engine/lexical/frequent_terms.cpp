#include "engine/lexical/frequent_terms.hpp"

#include <algorithm>

namespace hyrecall {

FrequencyBits::FrequencyBits(PostingList const& list, std::size_t n_rows)
    : bytes_((n_rows + 3) / 4, 0) {
  list.for_each(0, list.size, [&](Row row, std::uint32_t freq) {
    bytes_[row / 4] |= static_cast<std::uint8_t>(std::min(freq, kMost) << (row % 4 * 2));
  });
}

FrequentTerms::~FrequentTerms() {
  for (auto& head : heads_) {
    for (Entry const* at = head.load(std::memory_order_acquire); at != nullptr;) {
      std::unique_ptr<Entry const> const owned(at);
      at = owned->next;
    }
  }
}

FrequencyBits const& FrequentTerms::of(TermId term, PostingList const& list,
                                       std::size_t n_rows) const {
  std::atomic<Entry const*>& head = heads_[term % heads_.size()];
  Entry const* first = head.load(std::memory_order_acquire);
  std::unique_ptr<Entry> made;
  for (;;) {
    for (Entry const* at = first; at != nullptr; at = at->next) {
      if (at->term == term) return at->bits;
    }
    if (made == nullptr) {
      made = std::make_unique<Entry>(term, nullptr, FrequencyBits(list, n_rows));
    }
    made->next = first;
    if (head.compare_exchange_weak(first, made.get(), std::memory_order_acq_rel)) {
      return made.release()->bits;
    }
  }
}

std::size_t FrequentTerms::bytes() const {
  std::size_t out = 0;
  for (auto const& head : heads_) {
    for (Entry const* at = head.load(std::memory_order_acquire); at != nullptr; at = at->next)
      out += sizeof(Entry) + at->bits.bytes();
  }
  return out;
}

}  // namespace hyrecall
