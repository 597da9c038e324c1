#include "device/search_queue.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/interrupt.hpp"

namespace hyrecall::device {
namespace {

// Values of filters that are joined: each call brings its own.
constexpr std::size_t kMostCodes = std::size_t{1} << 16;

bool are_alike(DenseSearch const& a, DenseSearch const& b) {
  return a.depths.front() == b.depths.front() && a.settings == b.settings;
}

// Several batches as one. A scope that several have stands in it once.
class Joined {
 public:
  explicit Joined(DeviceTable const& table)
      : dim_(table.dim()), n_views_(table.first_slots().size()) {}

  void add(DenseSearch const& from) {
    std::vector<std::uint32_t> scope_of, filter_of;
    for (SlotRanges const& scope : from.scopes) scope_of.push_back(number_of(scope));
    for (std::size_t f = 0; f * n_views_ < from.filters.size(); ++f)
      filter_of.push_back(add_filter(from, from.filters.subspan(f * n_views_, n_views_)));
    auto const first_group = static_cast<std::uint32_t>(group_scopes_.size());
    for (std::size_t g = 0; g < from.group_scopes.size(); ++g) {
      group_scopes_.push_back(scope_of[from.group_scopes[g]]);
      std::uint32_t const filter = from.group_filters[g];
      group_filters_.push_back(filter == kNone32 ? kNone32 : filter_of[filter]);
    }
    for (std::size_t q = 0; q < from.group_of.size(); ++q) {
      bool const is_searched = from.group_of[q] != kNone32;
      group_of_.push_back(is_searched ? first_group + from.group_of[q] : kNone32);
      std::size_t const begin = values_.size();
      values_.resize(begin + dim_);
      float const* const row = from.queries.first + q * from.queries.stride;
      if (is_searched) std::memcpy(values_.data() + begin, row, dim_ * sizeof(float));
    }
    append(floors_, from.floors);
    append(strict_, from.strict);
    append(depths_, from.depths);
  }

  DenseSearch search(DenseSearch const& like) const {
    DenseSearch out{};
    out.scopes = scopes_;
    out.group_scopes = group_scopes_;
    out.group_filters = group_filters_;
    out.group_of = group_of_;
    out.filters = filters_;
    out.tests = tests_;
    out.codes = codes_;
    out.queries = {values_.data(), dim_};
    out.floors = floors_;
    out.strict = strict_;
    out.depths = depths_;
    out.settings = like.settings;
    out.threads = like.threads;
    return out;
  }

 private:
  template <typename T>
  static void append(std::vector<T>& to, std::span<T const> from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  std::uint32_t add_filter(DenseSearch const& from, std::span<SegmentFilter const> filter) {
    for (SegmentFilter const& one : filter) {
      auto const first_code = static_cast<std::int64_t>(codes_.size());
      filters_.push_back({static_cast<std::uint32_t>(tests_.size()), one.n_tests});
      for (TileTest test : from.tests.subspan(one.test_begin, one.n_tests)) {
        if (test.kind == TileTestKind::kAnyOf) {
          append(codes_, from.codes.subspan(static_cast<std::size_t>(test.low), test.n));
          test.low = first_code;
        }
        tests_.push_back(test);
      }
    }
    return static_cast<std::uint32_t>(filters_.size() / n_views_) - 1;
  }
  std::uint32_t number_of(SlotRanges const& scope) {
    auto const same = [&](SlotRanges const& one) {
      return std::equal(one.begin(), one.end(), scope.begin(), scope.end(),
                        [](SlotRange const& a, SlotRange const& b) {
                          return a.begin == b.begin && a.end == b.end;
                        });
    };
    auto const number = std::find_if(scopes_.begin(), scopes_.end(), same) - scopes_.begin();
    if (static_cast<std::size_t>(number) == scopes_.size()) scopes_.push_back(scope);
    return static_cast<std::uint32_t>(number);
  }

  std::size_t dim_;
  std::size_t n_views_;
  std::vector<SlotRanges> scopes_;
  std::vector<std::uint32_t> group_scopes_, group_filters_, group_of_, depths_;
  std::vector<SegmentFilter> filters_;
  std::vector<TileTest> tests_;
  std::vector<std::int64_t> codes_;
  std::vector<float> values_, floors_;
  std::vector<std::uint8_t> strict_;
};

}  // namespace

void SearchQueue::run(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take) {
  Call own{batch, take};
  std::vector<Call*> calls;
  {
    std::unique_lock lock(mutex_);
    waiting_.push_back(&own);
    n_waiting_ += batch.group_of.size();
    moved_.notify_all();  // together with this one, others may have enough
    moved_.wait(lock, [&] { return own.is_done || own.is_left || (!own.is_led && may_begin()); });
    if (own.is_done) return;
    if (!own.is_left) calls = take_alike(own);
  }
  if (calls.empty()) return search_alone(table, batch, take);
  bool is_found = false;
  auto const end = [&] {
    std::lock_guard const lock(mutex_);
    for (Call* const one : calls) {
      (is_found ? one->is_done : one->is_left) = true;
    }
    n_searches_ -= 1;
    moved_.notify_all();
  };
  try {
    search_together(table, calls);
    is_found = true;
  } catch (...) {
    end();
    if (calls.size() == 1 || was_interrupted()) throw;
    return search_alone(table, batch, take);  // as the others do: the fault may be of one of them
  }
  end();
}

bool SearchQueue::may_begin() const {
  return n_searches_ == 0 || (n_searches_ == 1 && n_waiting_ >= kMostTogether / 2);
}

// The first, and what waits and is like it. All leave the queue; mutex_ is held.
std::vector<SearchQueue::Call*> SearchQueue::take_alike(Call& first) {
  std::vector<Call*> out;
  std::size_t n_queries = first.batch.group_of.size();
  std::size_t n_codes = first.batch.codes.size();
  auto const take = [&](Call& one) {
    out.push_back(&one);
    one.is_led = true;
  };
  try {
    out.reserve(waiting_.size());  // first: the queue must not keep a call that has ended
  } catch (std::bad_alloc const&) {
    std::erase(waiting_, &first);
    n_waiting_ -= n_queries;
    throw;
  }
  take(first);
  for (Call* const one : waiting_) {
    std::size_t const queries = n_queries + one->batch.group_of.size();
    std::size_t const codes = n_codes + one->batch.codes.size();
    if (one == &first || queries > kMostTogether || codes > kMostCodes ||
        !are_alike(one->batch, first.batch))
      continue;
    take(*one);
    n_queries = queries;
    n_codes = codes;
  }
  std::erase_if(waiting_, [](Call const* one) { return one->is_led; });
  n_waiting_ -= n_queries;
  n_searches_ += 1;
  return out;
}

void SearchQueue::search_together(DeviceTable const& table, std::span<Call* const> calls) {
  Call const& first = *calls.front();
  if (calls.size() == 1) return search_alone(table, first.batch, first.take);
  Joined joined(table);
  std::vector<std::uint32_t> begins{0};  // [n_calls + 1] its queries
  for (Call const* const one : calls) {
    joined.add(one->batch);
    begins.push_back(begins.back() + static_cast<std::uint32_t>(one->batch.group_of.size()));
  }
  search_alone(table, joined.search(first.batch), [&](std::span<FoundRows const> found) {
    std::vector<std::vector<FoundRows>> by_call(calls.size());
    for (FoundRows one : found) {
      auto const after = std::upper_bound(begins.begin(), begins.end(), one.query);
      auto const call = static_cast<std::size_t>(after - begins.begin()) - 1;
      one.query -= begins[call];
      by_call[call].push_back(one);
    }
    for (std::size_t call = 0; call < calls.size(); ++call)
      if (!by_call[call].empty()) calls[call]->take(by_call[call]);
  });
}

}  // namespace hyrecall::device
