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

// (group, member) -> count, sorted within a page. The caller chooses an entry's page by a hash, so
// that what is read together may lie together.
class PagedTable {
 public:
  struct MemberCount {
    std::uint32_t group;
    std::uint32_t member;
    std::int64_t count;
  };

  // The group's entries of that page by rising member; valid as long as this table lives.
  std::span<MemberCount const> of_group(std::uint64_t hash, std::uint32_t group) const {
    Branch const* const branch = branches_[branch_of(hash)].get();
    Page const* const page = branch == nullptr ? nullptr : branch->pages[page_of(hash)].get();
    if (page == nullptr) return {};
    auto const& entries = page->entries;
    auto const begin =
        std::lower_bound(entries.begin(), entries.end(), group,
                         [](MemberCount const& e, std::uint32_t g) { return e.group < g; });
    auto const end =
        std::upper_bound(begin, entries.end(), group,
                         [](std::uint32_t g, MemberCount const& e) { return g < e.group; });
    return {begin, end};
  }

  // A copy to change: the pages it shares with this table are copied before they are touched.
  PagedTable fork() const {
    static std::atomic<std::uint64_t> epochs{0};
    PagedTable copy = *this;
    copy.epoch_ = ++epochs;
    return copy;
  }

  // Adds to a count in place; only on a fork that no other thread can see yet.
  void add(std::uint64_t hash, MemberCount const& added) {
    Branch& branch = own(branches_[branch_of(hash)]);
    std::vector<MemberCount>& entries = own(branch.pages[page_of(hash)]).entries;
    auto const at = std::lower_bound(
        entries.begin(), entries.end(), added, [](MemberCount const& x, MemberCount const& y) {
          return std::pair(x.group, x.member) < std::pair(y.group, y.member);
        });
    if (at != entries.end() && at->group == added.group && at->member == added.member) {
      at->count += added.count;
    } else {
      entries.insert(at, added);
    }
  }

 private:
  static constexpr std::size_t kFanOut =
      256;  // twice: 65,536 pages, 64 entries each at four million
  struct Page {
    std::uint64_t epoch = 0;  // of the fork that made it; only that fork may change it
    std::vector<MemberCount> entries;
  };
  struct Branch {
    std::uint64_t epoch = 0;
    std::array<std::shared_ptr<Page>, kFanOut> pages;
  };

  static std::size_t branch_of(std::uint64_t hash) { return hash % kFanOut; }
  static std::size_t page_of(std::uint64_t hash) { return hash / kFanOut % kFanOut; }

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

// (group, member) -> count, to look up and to sum over members. A group's members lie in pages by
// blocks of 64, beside an index of its blocks: a change copies little of a group, however large.
class PagedCounts {
 public:
  std::int64_t get(std::uint32_t group, std::uint32_t member) const {
    for (auto const& e : members_.of_group(hash_of(group, member / kBlock), group)) {
      if (e.member == member) return e.count;
    }
    return 0;
  }

  // Over members that rise.
  std::int64_t sum(std::uint32_t group, std::span<std::uint32_t const> members) const {
    std::int64_t sum = 0;
    auto at = members.begin();  // blocks and members both rise, so they are walked together
    for (auto const& block : blocks_.of_group(mix64(group), group)) {
      at = std::lower_bound(at, members.end(), block.member * kBlock);
      if (at == members.end()) break;
      if (*at / kBlock != block.member) continue;
      for (auto const& e : members_.of_group(hash_of(group, block.member), group)) {
        // Blocks of a group may share a page.
        if (e.member / kBlock == block.member && std::binary_search(at, members.end(), e.member))
          sum += e.count;
      }
    }
    return sum;
  }

  // A copy to change; see PagedTable.
  PagedCounts fork() const {
    PagedCounts copy;
    copy.members_ = members_.fork();
    copy.blocks_ = blocks_.fork();
    return copy;
  }

  // Adds to a count in place; only on a fork that no other thread can see yet.
  void add(std::uint32_t group, std::uint32_t member, std::int64_t count) {
    members_.add(hash_of(group, member / kBlock), {group, member, count});
    blocks_.add(mix64(group), {group, member / kBlock, count});
  }

 private:
  static constexpr std::uint32_t kBlock = 64;

  static std::uint64_t hash_of(std::uint32_t group, std::uint32_t block) {
    return mix64(std::uint64_t{group} << 32 | block);
  }

  PagedTable members_;
  PagedTable blocks_;  // (group, member / kBlock) -> sum of counts
};

}  // namespace hyrecall
