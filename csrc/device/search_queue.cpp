#include "device/search_queue.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "core/interrupt.hpp"

namespace hyrecall::device {
namespace {

// Values of filters that are joined: each call brings its own.
constexpr std::size_t kMostCodes = std::size_t{1} << 16;
constexpr std::size_t kMostCalls = 128;

bool are_alike(DenseSearch const& a, DenseSearch const& b) {
  return a.depths.front() == b.depths.front() && a.settings == b.settings;
}

// Several batches as one. A scope that several have stands in it once.
class Joined {
 public:
  explicit Joined(DeviceTable const& table)
      : dim_(table.dim()), n_views_(table.first_slots().size()) {}

  void add(DenseSearch const& from) {
    std::vector<std::uint32_t> scope_of;
    for (SlotRanges const& scope : from.scopes) scope_of.push_back(number_of(scope));
    auto const first_filter = static_cast<std::uint32_t>(all_.filters.size() / n_views_);
    for (SegmentFilter const& one : from.filters)
      all_.add_program(from.tests.subspan(one.test_begin, one.n_tests), from.codes);
    auto const first_group = static_cast<std::uint32_t>(all_.group_scopes.size());
    for (std::size_t g = 0; g < from.group_scopes.size(); ++g) {
      all_.group_scopes.push_back(scope_of[from.group_scopes[g]]);
      std::uint32_t const filter = from.group_filters[g];
      all_.group_filters.push_back(filter == kNone32 ? kNone32 : first_filter + filter);
    }
    for (std::size_t q = 0; q < from.group_of.size(); ++q) {
      bool const is_searched = from.group_of[q] != kNone32;
      all_.group_of.push_back(is_searched ? first_group + from.group_of[q] : kNone32);
      std::size_t const begin = values_.size();
      values_.resize(begin + dim_);
      float const* const row = from.queries.first + q * from.queries.stride;
      if (is_searched) std::memcpy(values_.data() + begin, row, dim_ * sizeof(float));
    }
    append(all_.floors, from.floors);
    append(all_.strict, from.strict);
    append(all_.depths, from.depths);
  }

  DenseSearch search(DenseSearch const& like) const {
    DenseSearch out = all_.view();
    out.queries = {values_.data(), dim_};
    out.settings = like.settings;
    out.threads = like.threads;
    return out;
  }

 private:
  template <typename T>
  static void append(std::vector<T>& to, std::span<T const> from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  std::uint32_t number_of(SlotRanges const& scope) {
    auto const same = [](SlotRange const& a, SlotRange const& b) {
      return a.begin == b.begin && a.end == b.end;
    };
    auto const found = std::find_if(all_.scopes.begin(), all_.scopes.end(), [&](auto const& one) {
      return std::equal(one.begin(), one.end(), scope.begin(), scope.end(), same);
    });
    auto const at = static_cast<std::uint32_t>(found - all_.scopes.begin());
    if (at == all_.scopes.size()) all_.scopes.push_back(scope);
    return at;
  }

  std::size_t dim_;
  std::size_t n_views_;
  SearchArrays all_;
  std::vector<float> values_;
};

}  // namespace

void SearchQueue::run(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take) {
  Call own{batch, take};
  std::vector<Call*> calls;
  calls.reserve(kMostCalls);  // first: the queue must not keep a call that has ended
  {
    std::unique_lock lock(mutex_);
    waiting_.push_back(&own);
    n_waiting_ += batch.group_of.size();
    moved_.notify_all();  // together with this one, others may have enough
    moved_.wait(lock, [&] { return own.is_done || own.is_left || (!own.is_led && may_begin()); });
    if (own.is_done) return;
    if (!own.is_left) take_alike(own, calls);
  }
  if (calls.empty()) return search_alone(table, batch, take);
  std::exception_ptr error;
  try {
    search_together(table, calls);
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard const lock(mutex_);
    for (Call* const one : calls) (error ? one->is_left : one->is_done) = true;
    n_searches_ -= 1;
    moved_.notify_all();
  }
  if (!error) return;
  if (calls.size() == 1 || was_interrupted()) std::rethrow_exception(error);
  search_alone(table, batch, take);  // as the others do: the fault may be of one of them
}

bool SearchQueue::may_begin() const {
  return n_searches_ == 0 || (n_searches_ == 1 && n_waiting_ >= kMostTogether / 2);
}

// The first, and what waits and is like it, leave the queue; mutex_ is held.
void SearchQueue::take_alike(Call& first, std::vector<Call*>& out) {
  std::size_t n_queries = 0;
  std::size_t n_codes = 0;
  auto const take = [&](Call& one) {
    n_queries += one.batch.group_of.size();
    n_codes += one.batch.codes.size();
    one.is_led = true;
    out.push_back(&one);
  };
  take(first);
  for (Call* const one : waiting_) {
    bool const fits = n_queries + one->batch.group_of.size() <= kMostTogether &&
                      n_codes + one->batch.codes.size() <= kMostCodes && out.size() < kMostCalls;
    if (one != &first && fits && are_alike(one->batch, first.batch)) take(*one);
  }
  std::erase_if(waiting_, [](Call const* one) { return one->is_led; });
  n_waiting_ -= n_queries;
  n_searches_ += 1;
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
