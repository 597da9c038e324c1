// A persistent sorted map: a changed copy shares every page it did not touch, so a snapshot costs
// its changes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/hash.hpp"

namespace hyrecall {

// (group, member) -> count. Entries of one group lie together, so a group can be walked.
class PagedCounts {
 public:
  struct Entry {
    std::uint32_t group;
    std::uint32_t member;
    std::int64_t count;
  };

  std::int64_t get(std::uint32_t group, std::uint32_t member) const {
    std::span<Entry const> const entries = of_group(group);
    auto const at = std::lower_bound(entries.begin(), entries.end(), member,
                                     [](Entry const& e, std::uint32_t m) { return e.member < m; });
    return at != entries.end() && at->member == member ? at->count : 0;
  }

  // The group's entries by rising member; valid as long as this map lives.
  std::span<Entry const> of_group(std::uint32_t group) const {
    Branch const* const branch = branches_[branch_of(group)].get();
    if (branch == nullptr) return {};
    Page const* const page = branch->pages[page_of(group)].get();
    if (page == nullptr) return {};
    auto const& entries = page->entries;
    auto const begin =
        std::lower_bound(entries.begin(), entries.end(), group,
                         [](Entry const& e, std::uint32_t g) { return e.group < g; });
    auto const end = std::upper_bound(begin, entries.end(), group,
                                      [](std::uint32_t g, Entry const& e) { return g < e.group; });
    return {begin, end};
  }

  // A copy to change: the pages it shares with this map are copied before they are touched.
  PagedCounts fork() const {
    static std::atomic<std::uint64_t> epochs{0};
    PagedCounts copy = *this;
    copy.epoch_ = ++epochs;
    return copy;
  }

  // Adds to a count in place; only on a fork that no other thread can see yet.
  void add(std::uint32_t group, std::uint32_t member, std::int64_t count) {
    Branch& branch = own(branches_[branch_of(group)]);
    std::vector<Entry>& entries = own(branch.pages[page_of(group)]).entries;
    auto const at = std::lower_bound(
        entries.begin(), entries.end(), std::pair(group, member),
        [](Entry const& e, auto const& k) { return std::pair(e.group, e.member) < k; });
    if (at != entries.end() && at->group == group && at->member == member) {
      at->count += count;
    } else {
      entries.insert(at, {group, member, count});
    }
  }

 private:
  static constexpr std::size_t kFanOut =
      256;  // twice: 65,536 pages, 64 entries each at four million
  struct Page {
    std::uint64_t epoch = 0;  // of the fork that made it; only that fork may change it
    std::vector<Entry> entries;
  };
  struct Branch {
    std::uint64_t epoch = 0;
    std::array<std::shared_ptr<Page>, kFanOut> pages;
  };

  static std::size_t branch_of(std::uint32_t group) { return mix64(group) % kFanOut; }
  static std::size_t page_of(std::uint32_t group) { return mix64(group) / kFanOut % kFanOut; }

  template <typename T>
  T& own(std::shared_ptr<T>& held) const {
    if (held == nullptr || held->epoch != epoch_) {
      held = held == nullptr ? std::make_shared<T>() : std::make_shared<T>(*held);
      held->epoch = epoch_;
    }
    return *held;
  }

  std::uint64_t epoch_ = 0;
  std::array<std::shared_ptr<Branch>, kFanOut> branches_{};
};

}  // namespace hyrecall
